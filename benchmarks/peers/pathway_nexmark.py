"""The queries of Nexmark as Pathway expresses them.

Times are texts, which have the same order; windows read them. Pathway has no frame of rows, no LIMIT in a group, no
regular expressions and no split: Python functions do that (q6, q19, q21, q22).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pathway as pw

from benchmarks.peers import pathway_queries

Tables = Mapping[str, Any]
TEN = timedelta(seconds=10)
RANKS = {"total": "", "rank1": "_low", "rank2": "_middle", "rank3": "_high"}
"""Beginning of the name of a count -> the suffix that `pathway_queries` gives it."""
CHANNEL_ID = re.compile(r"(&|^)channel_id=([^&]*)")
HOT = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}


def _timed(table: Any) -> Any:
    return table.with_columns(time=table.dateTime.dt.strptime("%Y-%m-%d %H:%M:%S.%f"))


def q0(tables: Tables) -> Any:
    """Return the bids."""
    return tables["bid"].select(
        pw.this.auction, pw.this.bidder, pw.this.price, pw.this.dateTime, pw.this.extra
    )


def q1(tables: Tables) -> Any:
    """Return the bids with prices in euros."""
    return q0(tables).with_columns(price=0.908 * pw.this.price)


def q2(tables: Tables) -> Any:
    """Return the bids on some auctions."""
    bids = tables["bid"]
    return bids.filter(bids.auction % 123 == 0).select(pw.this.auction, pw.this.price)


def q3(tables: Tables) -> Any:
    """Return who sells in three states."""
    people, auctions = tables["person"], tables["auction"]
    local = people.filter((people.state == "OR") | (people.state == "ID") | (people.state == "CA"))
    sold = auctions.filter(auctions.category == 10)
    return sold.join(local, sold.seller == local.id_).select(
        local.name, local.city, local.state, id_=sold.id_
    )


def _in_time(tables: Tables) -> Any:
    """Return the bids that came while their auctions were open."""
    auctions, bids = tables["auction"], tables["bid"]
    joined = auctions.join(bids, auctions.id_ == bids.auction).select(
        *[auctions[name] for name in auctions.column_names()],
        bids.auction, bids.bidder, bids.price, bid_time=bids.dateTime, bid_extra=bids.extra,
    )  # fmt: skip
    return joined.filter((joined.bid_time >= joined.dateTime) & (joined.bid_time <= joined.expires))


def _won(tables: Tables) -> Any:
    """Return the highest bid of each auction, the earliest of several."""
    bids = _in_time(tables)
    place = pw.make_tuple(-bids.price, bids.bid_time, bids.bidder, bids.bid_extra)
    first = bids.groupby(bids.id_).reduce(best=pw.reducers.argmin(place))
    return bids.ix(first.best)


def q4(tables: Tables) -> Any:
    """Return the mean of the highest bids of a category."""
    bids = _in_time(tables)
    highest = bids.groupby(bids.id_, bids.category).reduce(
        bids.category, highest=pw.reducers.max(bids.price)
    )
    return highest.groupby(highest.category).reduce(
        highest.category, price=pw.reducers.avg(highest.highest)
    )


def q5(tables: Tables) -> Any:
    """Return the auctions with the most bids of a hopping window."""
    bids = _timed(tables["bid"])
    window = pw.temporal.sliding(hop=timedelta(seconds=2), duration=TEN)
    counts = bids.windowby(bids.time, window=window, instance=bids.auction).reduce(
        auction=pw.this._pw_instance, start_time=pw.this._pw_window_start, num=pw.reducers.count()
    )
    most = counts.groupby(counts.start_time).reduce(
        counts.start_time, most=pw.reducers.max(counts.num)
    )
    same = (counts.start_time == most.start_time, counts.num == most.most)
    return counts.join(most, *same).select(counts.auction, counts.start_time, counts.num)


def q6(tables: Tables) -> Any:
    """Return the mean of a winning bid of a seller and of the ten before it."""
    won = _won(tables)
    rows = pw.reducers.sorted_tuple(pw.make_tuple(won.bid_time, won.id_, won.price))
    sellers = won.groupby(won.seller).reduce(won.seller, rows=rows)
    means = pw.apply_with_type(_means, list[tuple[str, float]], sellers.rows)
    flat = sellers.select(sellers.seller, mean=means).flatten(pw.this.mean)
    return flat.select(flat.seller, dateTime=flat.mean[0], price=flat.mean[1])


def _means(rows: tuple[tuple[str, int, int], ...]) -> list[tuple[str, float]]:
    prices = [price for *_, price in rows]
    frames = (prices[max(i - 10, 0) : i + 1] for i in range(len(rows)))
    return [(row[0], sum(f) / len(f)) for row, f in zip(rows, frames, strict=True)]


def q7(tables: Tables) -> Any:
    """Return the bids with the highest price of a window."""
    bids = _timed(tables["bid"])
    highest = bids.windowby(bids.time, window=pw.temporal.tumbling(duration=TEN)).reduce(
        highest=pw.reducers.max(pw.this.price), end=pw.this._pw_window_end
    )
    joined = bids.join(highest, bids.price == highest.highest).select(*pw.left, highest.end)
    near = joined.filter((joined.time >= joined.end - TEN) & (joined.time <= joined.end))
    return near.select(near.auction, near.bidder, near.price, near.dateTime, near.extra)


def q8(tables: Tables) -> Any:
    """Return people who came and opened an auction within the same window."""
    window = pw.temporal.tumbling(duration=TEN)
    people, auctions = _timed(tables["person"]), _timed(tables["auction"])
    came = people.windowby(
        people.time, window=window, instance=pw.make_tuple(people.id_, people.name)
    ).reduce(who=pw.this._pw_instance, start_time=pw.this._pw_window_start)
    came = came.select(came.start_time, id_=came.who[0], name=came.who[1])
    sold = auctions.windowby(auctions.time, window=window, instance=auctions.seller).reduce(
        seller=pw.this._pw_instance, start_time=pw.this._pw_window_start
    )
    return came.join(sold, came.id_ == sold.seller, came.start_time == sold.start_time).select(
        came.id_, came.name, came.start_time
    )


def q9(tables: Tables) -> Any:
    """Return the winning bid of each auction."""
    return _won(tables)


def q10(tables: Tables) -> Any:
    """Return the bids with their day and minute."""
    times = {
        "dt": pw.this.dateTime.str.slice(0, 10),
        "hm": pw.this.dateTime.str.slice(11, 16),
    }
    return q0(tables).with_columns(**times)


def q11(tables: Tables) -> Any:
    """Return the sessions of a bidder."""
    bids = _timed(tables["bid"])
    window = pw.temporal.session(max_gap=TEN)
    return bids.windowby(bids.time, window=window, instance=bids.bidder).reduce(
        bidder=pw.this._pw_instance,
        bids=pw.reducers.count(),
        start_time=pw.this._pw_window_start,
        end_time=pw.this._pw_window_end + TEN,
    )


def q12(tables: Tables) -> Any:
    """Return the bids of a bidder in each window."""
    bids = _timed(tables["bid"])
    window = pw.temporal.tumbling(duration=TEN)
    return bids.windowby(bids.time, window=window, instance=bids.bidder).reduce(
        bidder=pw.this._pw_instance,
        bids=pw.reducers.count(),
        start_time=pw.this._pw_window_start,
        end_time=pw.this._pw_window_end,
    )


def q13(tables: Tables) -> Any:
    """Return the bids with a value of the bounded table."""
    bids, side = tables["bid"].with_columns(place=pw.this.auction % 10000), tables["side_input"]
    return bids.join(side, bids.place == side.key).select(
        bids.auction, bids.bidder, bids.price, bids.dateTime, side.value
    )


def q14(tables: Tables) -> Any:
    """Return prices within bounds, the time of the day, and the number of letters c."""
    bids = q1(tables)
    bids = bids.filter((bids.price > 1000000) & (bids.price < 50000000))
    hour = bids.dateTime.str.slice(11, 13).str.parse_int()
    night = pw.if_else((hour <= 6) | (hour >= 20), "nightTime", "otherTime")
    return bids.with_columns(
        bid_time_type=pw.if_else((hour >= 8) & (hour <= 18), "dayTime", night),
        c_counts=bids.extra.str.count("c"),
    )


def _of_day(tables: Tables) -> dict[str, Any]:
    return {"bids": tables["bid"].with_columns(datetime=pw.this.dateTime)}


def _counts(table: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {f"{rank}_{n}": table[f"{n}{suffix}"] for rank, suffix in RANKS.items() for n in names}


def q15(tables: Tables) -> Any:
    """Return the statistics of a day."""
    days = pathway_queries.q15(_of_day(tables))
    return days.select(days.day, **_counts(days, ("bids", "bidders", "auctions")))


def q16(tables: Tables) -> Any:
    """Return the statistics of a channel and day."""
    days = pathway_queries.q16(_of_day(tables))
    counts = _counts(days, ("bids", "bidders", "auctions"))
    return days.select(days.channel, days.day, minute=days.newest.str.slice(11, 16), **counts)


def q17(tables: Tables) -> Any:
    """Return the statistics of an auction and day."""
    days = pathway_queries.q17(_of_day(tables))
    prices = {"min_price": days.low, "max_price": days.high, "avg_price": days.mean, "sum_price": days.total}  # fmt: skip
    return days.select(days.auction, days.day, **_counts(days, ("bids",)), **prices)


def q18(tables: Tables) -> Any:
    """Return the last bid of a person on an auction; of bids at one time the highest."""
    bids = _timed(tables["bid"])
    place = pw.make_tuple(-bids.time.dt.timestamp(unit="us"), -bids.price, bids.channel, bids.extra)
    last = bids.groupby(bids.bidder, bids.auction).reduce(last=pw.reducers.argmin(place))
    return bids.ix(last.last).without("time")


def q19(tables: Tables) -> Any:
    """Return the ten highest bids of an auction."""
    bids = tables["bid"]
    row = pw.make_tuple(-bids.price, bids.dateTime, bids.bidder, bids.channel, bids.extra, bids.url)
    auctions = bids.groupby(bids.auction).reduce(bids.auction, rows=pw.reducers.sorted_tuple(row))
    kind = list[tuple[int, int, str, int, str, str, str]]
    first = pw.apply_with_type(_ten, kind, auctions.rows)
    flat = auctions.select(auctions.auction, row=first).flatten(pw.this.row)
    names = ("place", "price", "dateTime", "bidder", "channel", "extra", "url")
    return flat.select(flat.auction, **{name: flat.row[i] for i, name in enumerate(names)})


def _ten(rows: tuple[tuple[Any, ...], ...]) -> list[tuple[Any, ...]]:
    return [(place, -price, *rest) for place, (price, *rest) in enumerate(rows[:10], 1)]


def q20(tables: Tables) -> Any:
    """Return bids with their auctions, of a category."""
    bids, auctions = tables["bid"], tables["auction"].filter(pw.this.category == 10)
    return bids.join(auctions, bids.auction == auctions.id_).select(
        bids.auction, bids.bidder, bids.price, bids.channel, bids.url, auctions.itemName,
        auctions.description, auctions.initialBid, auctions.reserve, auctions.expires,
        auctions.seller, auctions.category, bid_time=bids.dateTime, bid_extra=bids.extra,
        auction_time=auctions.dateTime, auction_extra=auctions.extra,
    )  # fmt: skip


def q21(tables: Tables) -> Any:
    """Return the channel of a bid."""
    bids = tables["bid"].select(
        pw.this.auction, pw.this.bidder, pw.this.price, pw.this.channel, pw.this.url
    )
    bids = bids.with_columns(channel_id=pw.apply_with_type(_channel, str, bids.channel, bids.url))
    return bids.filter(bids.channel_id != "").without("url")


def _channel(channel: str, url: str) -> str:
    found = CHANNEL_ID.search(url)
    return HOT.get(channel.lower()) or (found[2] if found else "")


def q22(tables: Tables) -> Any:
    """Return the folders of the address of a bid."""
    bids = tables["bid"]
    parts = pw.apply_with_type(_folders, tuple[str, str, str], bids.url)
    bids = bids.select(bids.auction, bids.bidder, bids.price, bids.channel, parts=parts)
    folders = {f"dir{i + 1}": bids.parts[i] for i in range(3)}
    return bids.with_columns(**folders).without("parts")


def _folders(url: str) -> tuple[str, str, str]:
    parts = url.split("/")
    return parts[3], parts[4], parts[5]


QUERIES: Mapping[str, Callable[[Tables], Any]] = {
    f"nexmark_{query.__name__}": query
    for query in (
        q0, q1, q2, q3, q4, q5, q6, q7, q8, q9, q10, q11, q12, q13, q14, q15, q16, q17, q18, q19, q20, q21, q22,
    )
}  # fmt: skip
"""Query -> the table of its answer, from the tables that it reads; a column ``id`` is ``id_`` there."""
