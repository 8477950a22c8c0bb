"""The raw tables of TPC-DI: what refers to what, the order of time, and how many rows come."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.tpcdi.__main__ import main
from benchmarks.tpcdi.generate import tables
from benchmarks.tpcdi.schema import SCHEMAS

SCALE = 0.05
INCREMENTAL = ("account", "customer")
SHARED = (
    "batch_date", "prospect", "trade", "cash_transaction", "daily_market", "holding_history", "watch_history",
)  # fmt: skip


@pytest.fixture(scope="module")
def generated() -> dict[tuple[int, str], pa.Table]:
    return {(batch, name): table for batch, name, table in tables(SCALE)}


@pytest.fixture(scope="module")
def database(generated: dict[tuple[int, str], pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name in SCHEMAS:
            rows = pa.concat_tables([t for (_, other), t in generated.items() if other == name])
            connection.register("given", rows)
            connection.execute(f'CREATE TABLE "{name}" AS FROM given')
            connection.unregister("given")
        yield connection


def number(database: duckdb.DuckDBPyConnection, query: str) -> int:
    ((value,),) = database.execute(query).fetchall()
    return int(value)


def test_each_batch_has_its_tables(generated: dict[tuple[int, str], pa.Table]) -> None:
    load = {(1, name) for name in SCHEMAS if name not in INCREMENTAL}
    changes = {(batch, name) for batch in (2, 3) for name in (*SHARED, *INCREMENTAL)}
    assert set(generated) == load | changes
    assert all(table.num_rows for table in generated.values())
    assert all(table.schema == SCHEMAS[name] for (_, name), table in generated.items())


def test_a_seed_gives_the_same_rows(generated: dict[tuple[int, str], pa.Table]) -> None:
    again = {(batch, name): table for batch, name, table in tables(SCALE)}
    assert all(table.equals(again[key]) for key, table in generated.items())
    other = {(batch, name): table for batch, name, table in tables(SCALE, seed=2)}
    fixed = {"date", "time", "industry", "status_type", "tax_rate", "trade_type", "batch_date"}
    assert {name for (_, name), table in generated.items() if table.equals(other[_, name])} == fixed


@pytest.mark.parametrize("scale", [0.05, 0.2])
def test_rows_grow_with_the_scale(scale: float) -> None:
    count = {name: table.num_rows for batch, name, table in tables(scale) if batch == 1}
    per_scale = {
        "hr": 5000,
        "customer_mgmt": 5000,
        "prospect": 5000,
        "finwire_cmp": 500,
        "finwire_sec": 815,
        "finwire_fin": 45_000,
        "trade": 130_000,
        "trade_history": 335_000,
        "holding_history": 123_000,
        "cash_transaction": 110_000,
        "daily_market": 520_000,
    }
    assert {name: count[name] for name in per_scale} == {
        name: pytest.approx(rows * scale, rel=0.15) for name, rows in per_scale.items()
    }


BROKERS = "SELECT employeeid FROM hr WHERE employeejobcode = 314"
CUSTOMERS = "SELECT c_id FROM customer_mgmt WHERE action_type = 'NEW' UNION SELECT c_id FROM customer WHERE cdc_flag = 'I'"
ACCOUNTS = (
    "SELECT ca_id FROM customer_mgmt WHERE action_type IN ('NEW', 'ADDACCT') "
    "UNION SELECT ca_id FROM account WHERE cdc_flag = 'I'"
)
COMPANIES = (
    "SELECT lpad(cik::VARCHAR, 10, '0') FROM finwire_cmp UNION SELECT companyname FROM finwire_cmp"
)
SYMBOLS = "SELECT symbol FROM finwire_sec"
REFERENCES = {
    "managers": ("hr", "managerid", "SELECT employeeid FROM hr"),
    "brokers of accounts": ("customer_mgmt", "ca_b_id", BROKERS),
    "brokers of changed accounts": ("account", "ca_b_id", BROKERS),
    "customers of accounts": ("account", "ca_c_id", CUSTOMERS),
    "customers of actions": ("customer_mgmt", "c_id", CUSTOMERS),
    "changed customers": ("customer", "c_id", CUSTOMERS),
    "accounts of actions": ("customer_mgmt", "ca_id", ACCOUNTS),
    "changed accounts": ("account", "ca_id", ACCOUNTS),
    "local taxes": ("customer_mgmt", "c_lcl_tx_id", "SELECT tx_id FROM tax_rate"),
    "national taxes": ("customer_mgmt", "c_nat_tx_id", "SELECT tx_id FROM tax_rate"),
    "industries": ("finwire_cmp", "industryid", "SELECT in_id FROM industry"),
    "companies of securities": ("finwire_sec", "conameorcik", COMPANIES),
    "companies of financials": ("finwire_fin", "conameorcik", COMPANIES),
    "securities of prices": ("daily_market", "dm_s_symb", SYMBOLS),
    "days of prices": ("daily_market", "dm_date", "SELECT datevalue FROM date"),
    "securities of watches": ("watch_history", "w_s_symb", SYMBOLS),
    "customers of watches": ("watch_history", "w_c_id", CUSTOMERS),
    "securities of trades": ("trade", "t_s_symb", SYMBOLS),
    "accounts of trades": ("trade", "t_ca_id", ACCOUNTS),
    "statuses of trades": ("trade", "t_st_id", "SELECT st_id FROM status_type"),
    "types of trades": ("trade", "t_tt_id", "SELECT tt_id FROM trade_type"),
    "trades of histories": ("trade_history", "th_t_id", "SELECT t_id FROM trade"),
    "trades of holdings": ("holding_history", "hh_t_id", "SELECT t_id FROM trade WHERE t_st_id = 'CMPT'"),
    "origins of holdings": ("holding_history", "hh_h_t_id", "SELECT hh_t_id FROM holding_history"),
    "accounts of cash": ("cash_transaction", "ct_ca_id", ACCOUNTS),
}  # fmt: skip


@pytest.mark.parametrize("reference", REFERENCES)
def test_what_is_referred_to_exists(database: duckdb.DuckDBPyConnection, reference: str) -> None:
    table, column, keys = REFERENCES[reference]
    assert number(database, f"SELECT count({column}) FROM {table}") > 0
    assert (
        number(database, f"SELECT count({column}) FROM {table} WHERE {column} NOT IN ({keys})") == 0
    )


WRONG = {
    "a customer that acts before it is new": """
        SELECT count(*) FROM customer_mgmt a JOIN customer_mgmt b USING (c_id)
        WHERE b.action_type = 'NEW' AND a.action_ts < b.action_ts""",
    "a customer that acts after it is inactive": """
        SELECT count(*) FROM customer_mgmt a JOIN customer_mgmt b USING (c_id)
        WHERE b.action_type = 'INACT' AND a.action_ts > b.action_ts""",
    "an account of another customer": """
        SELECT count(*) FROM (SELECT ca_id FROM customer_mgmt WHERE ca_id IS NOT NULL
        GROUP BY ca_id HAVING count(DISTINCT c_id) > 1)""",
    "an account that acts before it is open": """
        SELECT count(*) FROM customer_mgmt a JOIN customer_mgmt b USING (ca_id)
        WHERE b.action_type IN ('NEW', 'ADDACCT') AND a.action_ts < b.action_ts""",
    "an account that acts after it is closed": """
        SELECT count(*) FROM customer_mgmt a JOIN customer_mgmt b USING (ca_id)
        WHERE b.action_type = 'CLOSEACCT' AND a.action_ts > b.action_ts""",
    "two changes of a customer on a day": """
        SELECT count(*) FROM (SELECT c_id FROM customer_mgmt WHERE action_type IN ('NEW', 'UPDCUST', 'INACT')
        GROUP BY c_id, action_ts::DATE HAVING count(*) > 1)""",
    "a security before its company": """
        SELECT count(*) FROM (SELECT conameorcik, pts FROM finwire_sec UNION ALL SELECT conameorcik, pts FROM finwire_fin) s
        WHERE NOT EXISTS (FROM finwire_cmp c WHERE c.pts < s.pts
        AND s.conameorcik IN (c.companyname, lpad(c.cik::VARCHAR, 10, '0')))""",
    "two financials of a quarter": """
        SELECT count(*) FROM (SELECT c.cik FROM finwire_fin f JOIN (SELECT DISTINCT cik, companyname FROM finwire_cmp) c
        ON f.conameorcik IN (c.companyname, lpad(c.cik::VARCHAR, 10, '0'))
        GROUP BY c.cik, f.qtrstartdate HAVING count(*) > 1)""",
    "a trade that begins otherwise than its type": """
        SELECT count(*) FROM trade t JOIN (SELECT th_t_id, arg_min(th_st_id, th_dts) AS first FROM trade_history
        GROUP BY th_t_id) h ON t_id = th_t_id
        WHERE first <> CASE WHEN t_tt_id IN ('TMB', 'TMS') THEN 'SBMT' ELSE 'PNDG' END""",
    "a trade whose status is not its last one": """
        SELECT count(*) FROM trade t JOIN (SELECT th_t_id, arg_max(th_st_id, th_dts) AS last FROM trade_history
        GROUP BY th_t_id) h ON t_id = th_t_id WHERE batch_id = 1 AND last <> t_st_id""",
    "a trade with two histories of a status": """
        SELECT count(*) FROM (SELECT th_t_id FROM trade_history GROUP BY th_t_id, th_st_id HAVING count(*) > 1)""",
    "a price of a trade that is not complete": """
        SELECT count(*) FROM trade WHERE (t_st_id = 'CMPT') <> (t_trade_price IS NOT NULL)""",
    "a trade of an account that is not open": """
        SELECT count(*) FROM (SELECT t_id, t_ca_id, min(t_dts) AS dts FROM trade GROUP BY t_id, t_ca_id)
        JOIN customer_mgmt ON ca_id = t_ca_id WHERE action_type IN ('NEW', 'ADDACCT') AND dts < action_ts""",
    "a trade of an account that is closed": """
        SELECT count(*) FROM (SELECT th_t_id AS t_id, min(th_dts) AS dts FROM trade_history GROUP BY th_t_id)
        JOIN trade USING (t_id) JOIN customer_mgmt ON ca_id = t_ca_id
        WHERE action_type = 'CLOSEACCT' AND dts > action_ts""",
    "a trade that is updated and was not there": """
        SELECT count(*) FROM trade t WHERE cdc_flag = 'U' AND NOT EXISTS (FROM trade o WHERE o.t_id = t.t_id
        AND (o.batch_id < t.batch_id OR (o.batch_id = t.batch_id AND o.cdc_dsn < t.cdc_dsn)))""",
    "a trade that is updated and was done": """
        SELECT count(*) FROM trade t JOIN trade o USING (t_id)
        WHERE o.t_st_id IN ('CMPT', 'CNCL') AND o.batch_id < t.batch_id""",
    "a sell of another security than was bought": """
        SELECT count(*) FROM holding_history JOIN (SELECT DISTINCT t_id, t_ca_id, t_s_symb FROM trade) a ON a.t_id = hh_t_id
        JOIN (SELECT DISTINCT t_id, t_ca_id, t_s_symb FROM trade) b ON b.t_id = hh_h_t_id
        WHERE a.t_ca_id <> b.t_ca_id OR a.t_s_symb <> b.t_s_symb""",
    "a holding that is not what was left": """
        SELECT count(*) FROM (SELECT hh_before_qty, lag(hh_after_qty, 1, 0) OVER
        (PARTITION BY hh_h_t_id ORDER BY hh_t_id) AS remaining FROM holding_history) WHERE hh_before_qty <> remaining""",
    "a holding below nothing": "SELECT count(*) FROM holding_history WHERE hh_after_qty < 0",
    "a watch that ends and did not begin": """
        SELECT count(*) FROM watch_history e WHERE w_action = 'CNCL' AND NOT EXISTS (FROM watch_history b
        WHERE b.w_c_id = e.w_c_id AND b.w_s_symb = e.w_s_symb AND b.w_action = 'ACTV' AND b.w_dts < e.w_dts)""",
    "a watch that begins or ends twice": """
        SELECT count(*) FROM (SELECT w_c_id FROM watch_history GROUP BY w_c_id, w_s_symb, w_action HAVING count(*) > 1)""",
    "two prices of a day": """
        SELECT count(*) FROM (SELECT dm_date FROM daily_market GROUP BY dm_date, dm_s_symb HAVING count(*) > 1)""",
    "a price outside those of its day": """
        SELECT count(*) FROM daily_market WHERE dm_close NOT BETWEEN dm_low AND dm_high""",
    "a prospect that comes twice": """
        SELECT count(*) FROM (SELECT agencyid FROM prospect GROUP BY batch_id, agencyid HAVING count(*) > 1)""",
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_nothing_is(database: duckdb.DuckDBPyConnection, wrong: str) -> None:
    assert number(database, WRONG[wrong]) == 0


EXPECTED = {
    "tiers out of range": "FROM customer_mgmt WHERE c_tier NOT IN (1, 2, 3)",
    "dates of birth out of range": """FROM customer_mgmt
        WHERE c_dob > DATE '2017-07-07' OR c_dob < DATE '1917-07-07'""",
    "commissions above what is paid": "FROM trade WHERE t_comm > t_trade_price * t_qty",
    "charges above what is paid": "FROM trade WHERE t_chrg > t_trade_price * t_qty",
    "ratings that are none": "FROM finwire_cmp WHERE sprating = 'XXX'",
    "companies that change": """FROM (SELECT cik FROM finwire_cmp GROUP BY cik HAVING count(*) > 1)""",
    "prospects that are customers": """FROM prospect p JOIN customer_mgmt c
        ON upper(p.lastname) = upper(c.c_l_name) AND upper(p.firstname) = upper(c.c_f_name)
        AND p.addressline1 = c.c_adline1 AND p.postalcode = c.c_zipcode WHERE batch_id = 1""",
    "prospects that leave": """FROM prospect WHERE batch_id = 1
        AND agencyid NOT IN (SELECT agencyid FROM prospect WHERE batch_id = 2)""",
    "holdings sold in two parts": """FROM (SELECT hh_h_t_id FROM holding_history GROUP BY hh_h_t_id HAVING count(*) > 2)""",
    "trades that end in a later batch": """FROM trade t JOIN trade o USING (t_id)
        WHERE o.batch_id = 1 AND t.batch_id > 1 AND t.t_st_id = 'CMPT'""",
    "trades that are never submitted": """FROM trade WHERE t_st_id = 'CNCL' AND batch_id = 1
        AND t_id NOT IN (SELECT th_t_id FROM trade_history WHERE th_st_id = 'SBMT')""",
}  # fmt: skip


@pytest.mark.parametrize("expected", EXPECTED)
def test_there_are(database: duckdb.DuckDBPyConnection, expected: str) -> None:
    assert number(database, f"SELECT count(*) {EXPECTED[expected]}") > 0


@pytest.mark.parametrize("action", ["NEW", "ADDACCT", "UPDACCT", "CLOSEACCT", "UPDCUST", "INACT"])
def test_an_action_gives_what_it_changes(database: duckdb.DuckDBPyConnection, action: str) -> None:
    given = {
        "NEW": "c_l_name IS NOT NULL AND c_dob IS NOT NULL AND ca_id IS NOT NULL AND ca_b_id IS NOT NULL",
        "ADDACCT": "c_l_name IS NULL AND c_dob IS NULL AND ca_id IS NOT NULL AND ca_b_id IS NOT NULL",
        "UPDACCT": "c_l_name IS NULL AND ca_id IS NOT NULL AND (ca_b_id IS NULL OR ca_tax_st IS NULL)",
        "CLOSEACCT": "c_l_name IS NULL AND ca_id IS NOT NULL AND ca_b_id IS NULL AND ca_name IS NULL",
        "UPDCUST": "c_dob IS NULL AND c_tax_id IS NULL AND ca_id IS NULL",
        "INACT": "c_l_name IS NULL AND c_adline1 IS NULL AND ca_id IS NULL",
    }
    among = f"SELECT count(*) FROM customer_mgmt WHERE action_type = '{action}'"
    assert number(database, among) > 0
    assert number(database, f"{among} AND NOT ({given[action]})") == 0


@pytest.mark.parametrize("table", [*INCREMENTAL, *SHARED[2:]])
def test_changes_are_numbered(database: duckdb.DuckDBPyConnection, table: str) -> None:
    load = number(
        database, f"SELECT count(*) FROM {table} WHERE (batch_id = 1) <> (cdc_dsn IS NULL)"
    )
    assert load == 0
    again = f"SELECT count(cdc_dsn) - count(DISTINCT cdc_dsn) FROM {table} WHERE batch_id > 1"
    assert number(database, again) == 0
    later = f"SELECT (SELECT min(cdc_dsn) FROM {table} WHERE batch_id = 3) - max(cdc_dsn) FROM {table} WHERE batch_id = 2"
    assert number(database, later) > 0


def test_a_changed_customer_is_whole(database: duckdb.DuckDBPyConnection) -> None:
    kept = """SELECT count(*) FROM customer n JOIN customer_mgmt o USING (c_id)
        WHERE n.cdc_flag = 'U' AND o.action_type = 'NEW' AND n.c_dob = o.c_dob AND n.c_tax_id = o.c_tax_id"""
    old = "SELECT count(*) FROM customer WHERE cdc_flag = 'U' AND c_id IN (SELECT c_id FROM customer_mgmt)"
    assert number(database, kept) == number(database, old) > 0


def test_the_command_writes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--scale", "0.001", "--out", str(tmp_path)]) == 0
    assert "batch3  trade" in capsys.readouterr().out
    for name in SHARED:
        for batch in (1, 2, 3):
            rows = pq.read_table(tmp_path / f"batch{batch}" / f"{name}.parquet")
            assert rows.schema == SCHEMAS[name]
            assert rows.num_rows
