"""FINWIRE: companies, their securities, and what they earn in each quarter since 1967."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.tpcdi.columns import (
    Flags,
    Ints,
    Random,
    chosen,
    dates,
    decimals,
    digits,
    few,
    in_office_hours,
    sparse,
    text,
    times,
    words,
)
from benchmarks.tpcdi.people import FIRST_NAMES, LAST_NAMES, LETTERS, address
from benchmarks.tpcdi.reference import industry_codes
from benchmarks.tpcdi.schema import rows
from benchmarks.tpcdi.sizes import FIRST_YEAR, QUARTERS, TRADES_BEGIN, Sizes, day

RATINGS = ("AAA AA+ AA AA- A+ A A- BBB+ BBB BBB- BB+ BB BB- B+ B B- CCC+ CCC CCC- CC C D").split()
INVALID = 0.005
"""Share of the rows of companies whose rating is none of these."""
UPDATED = 0.12
"""Share of the companies and of the securities that have a second row."""
INACTIVE = 0.2
"""Share of the second rows that end a company or a security."""
BY_CIK = 0.7
"""Share of the rows that name their company by its CIK; the others have its name."""
EXCHANGES = "NYSE NASDAQ AMEX PCX".split()
ISSUES = "COMMON COMMON COMMON PREF_A PREF_B PREF_C PREF_D".split()
KINDS = "Bank Capital Energy Foods Group Holdings Labs Media Motors Partners Steel Systems".split()
STARTS = np.array([day(FIRST_YEAR + q // 4, q % 4 * 3 + 1, 1) for q in range(QUARTERS)])
"""The first day of each quarter."""
TRADED = int(np.searchsorted(STARTS, TRADES_BEGIN)) - 1
"""Securities come before this quarter, in which trades begin."""


@dataclass(frozen=True)
class Finwire:
    """The records.

    Attributes:
        companies: the table finwire_cmp.
        securities: the table finwire_sec.
        financials: the table finwire_fin.
        symbols: those of the securities that are traded: they are still active in the end.
    """

    companies: pa.Table
    securities: pa.Table
    financials: pa.Table
    symbols: pa.Array


@dataclass(frozen=True)
class _Lives:
    """Quarters in which something begins, has a second row, and ends: QUARTERS for never."""

    begin: Ints
    second: Ints
    end: Ints


def records(random: Random, sizes: Sizes) -> Finwire:
    """Return the records at a size."""
    begin = np.sort(random.integers(0, QUARTERS - 8, sizes.companies))
    begin[:2] = 0
    companies = _lives(random, begin)
    names = text(
        chosen(random, sizes.companies, LAST_NAMES),
        chosen(random, sizes.companies, KINDS),
        np.arange(sizes.companies),
    )
    early = int(np.searchsorted(begin, TRADED))
    of = random.integers(0, early, sizes.securities)
    come = random.integers(begin[of], TRADED)
    securities = _lives(random, come)
    return Finwire(
        _companies(random, companies, names),
        _securities(random, securities, of, names),
        _financials(random, companies, names),
        _symbols(np.arange(sizes.securities)).filter(pa.array(securities.end == QUARTERS)),
    )


def _lives(random: Random, begin: Ints) -> _Lives:
    second = np.full(len(begin), QUARTERS)
    drawn = few(random, len(begin), UPDATED)
    second[drawn] = random.integers(begin[drawn] + 1, QUARTERS)
    end = np.full(len(begin), QUARTERS)
    ended = drawn[random.random(len(drawn)) < INACTIVE]
    end[ended] = second[ended]
    return _Lives(begin, second, end)


def _versions(lives: _Lives) -> tuple[Ints, Ints, Flags]:
    """The number of each row's thing, the quarter of the row, and whether it ends the thing."""
    again = np.flatnonzero(lives.second < QUARTERS)
    number = np.concatenate([np.arange(len(lives.begin)), again])
    quarter = np.concatenate([lives.begin, lives.second[again]])
    return number, quarter, lives.end[number] == quarter


def _posted(random: Random, quarter: Ints, first: int) -> Ints:
    """A time in the 30 days of a quarter that begin after so many."""
    return in_office_hours(random, STARTS[quarter] + first + random.integers(0, 28, len(quarter)))


def _status(ended: Flags) -> pa.Array:
    return pa.array(np.where(ended, "INAC", "ACTV").astype(object), pa.string())


def _by_time(table: pa.Table) -> pa.Table:
    return table.sort_by([("pts", "ascending")])


def _companies(random: Random, lives: _Lives, names: pa.Array) -> pa.Table:
    number, quarter, ended = _versions(lives)
    count = len(number)
    place = address(random, count)
    rating = random.integers(0, len(RATINGS), count)
    rating[few(random, count, INVALID)] = len(RATINGS)
    founded = STARTS[lives.begin] - random.integers(100, 20_000, len(lives.begin))
    industry = random.integers(0, len(industry_codes()), len(lives.begin))
    return _by_time(rows("finwire_cmp", {
        "pts": times(_posted(random, quarter, 0)),
        "companyname": names.take(pa.array(number)),
        "cik": number,
        "status": _status(ended),
        "industryid": words(industry[number], industry_codes()),
        "sprating": words(rating, [*RATINGS, "XXX"]),
        "foundingdate": sparse(random, dates(founded[number])),
        "addrline1": place["line1"],
        "addrline2": place["line2"],
        "postalcode": place["zipcode"],
        "city": place["city"],
        "stateprovince": place["state"],
        "country": place["country"],
        "ceoname": text(chosen(random, count, FIRST_NAMES), chosen(random, count, LAST_NAMES)),
        "description": text("Company of", chosen(random, count, KINDS), "and", chosen(random, count, KINDS)),
    }))  # fmt: skip


def _symbols(number: Ints) -> pa.Array:
    letters = (words(number // 26**power % 26, LETTERS) for power in (5, 4, 3, 2, 1, 0))
    return pc.binary_join_element_wise(*letters, "")


def _named(random: Random, of: Ints, names: pa.Array) -> pa.Array:
    """Companies by CIK or by name."""
    return pc.if_else(random.random(len(of)) < BY_CIK, digits(of, 10), names.take(pa.array(of)))


def _securities(random: Random, lives: _Lives, of: Ints, names: pa.Array) -> pa.Table:
    number, quarter, ended = _versions(lives)
    issue = random.integers(0, len(ISSUES), len(lives.begin))
    listed = STARTS[lives.begin] + 70
    exchanged = listed - random.integers(0, 3000, len(lives.begin))
    exchange = random.integers(0, len(EXCHANGES), len(lives.begin))
    symbol = _symbols(number)
    return _by_time(rows("finwire_sec", {
        "pts": times(_posted(random, quarter, 30)),
        "symbol": symbol,
        "issuetype": words(issue[number], ISSUES),
        "status": _status(ended),
        "name": text(symbol, "of", names.take(pa.array(of[number]))),
        "exid": words(exchange[number], EXCHANGES),
        "shout": random.integers(1_000_000, 900_000_000, len(number)),
        "firsttradedate": dates(listed[number]),
        "firsttradeexchg": dates(exchanged[number]),
        "dividend": decimals(random.integers(0, 900, len(number)), 10),
        "conameorcik": _named(random, of[number], names),
    }))  # fmt: skip


def _financials(random: Random, lives: _Lives, names: pa.Array) -> pa.Table:
    """Return a row per company and quarter, from the second quarter on. Companies report the quarter before."""
    length = np.maximum(lives.end - lives.begin - 1, 0)
    of = np.repeat(np.arange(len(length)), length)
    first = np.repeat(np.cumsum(length) - length, length)
    quarter = lives.begin[of] + 1 + np.arange(len(of)) - first
    told, count = quarter - 1, len(of)
    posted = _posted(random, quarter, 60)
    revenue = random.integers(1_000_000, 10_000_000_000, count)
    margin = random.integers(-15, 40, count)
    shares = random.integers(1_000_000, 900_000_000, count)
    earnings = revenue * margin // 100
    diluted = shares + shares // 50
    return _by_time(rows("finwire_fin", {
        "pts": times(posted),
        "year": FIRST_YEAR + told // 4,
        "quarter": told % 4 + 1,
        "qtrstartdate": dates(STARTS[told]),
        "postingdate": dates(posted // 86_400),
        "revenue": decimals(revenue * 100, 15),
        "earnings": decimals(earnings * 100, 15),
        "eps": decimals(earnings * 100 // shares, 10),
        "dilutedeps": decimals(earnings * 100 // diluted, 10),
        "margin": decimals(margin, 10),
        "inventory": decimals(random.integers(0, 10**11, count), 15),
        "assets": decimals(random.integers(10**8, 10**12, count), 15),
        "liabilities": decimals(random.integers(10**7, 10**12, count), 15),
        "shout": shares,
        "dilutedshout": diluted,
        "conameorcik": _named(random, of, names),
    }))  # fmt: skip
