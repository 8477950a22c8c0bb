-- Views of the demo over the tables of pgbench. PostgreSQL executes the same text for the comparison.
CREATE TABLE pgbench_accounts (aid INT, bid INT, abalance INT);
CREATE TABLE pgbench_tellers (tid INT, bid INT, tbalance INT);
CREATE TABLE pgbench_branches (bid INT, bbalance INT);
CREATE TABLE pgbench_history (tid INT, bid INT, aid INT, delta INT);

CREATE VIEW top_tellers AS
SELECT t.tid AS teller, t.bid AS branch, count(*) AS transactions, sum(h.delta) AS total, max(h.delta) AS largest
FROM pgbench_history AS h JOIN pgbench_tellers AS t ON h.tid = t.tid
GROUP BY t.tid, t.bid
ORDER BY total DESC, teller
LIMIT 10;

-- TPC-B: each transaction adds one amount to an account, a teller and a branch, and keeps it in the history.
CREATE VIEW sums AS
SELECT name, sum(amount) AS total, count(*) AS number
FROM (
    SELECT 'accounts' AS name, abalance AS amount FROM pgbench_accounts
    UNION ALL SELECT 'tellers', tbalance FROM pgbench_tellers
    UNION ALL SELECT 'branches', bbalance FROM pgbench_branches
    UNION ALL SELECT 'history', delta FROM pgbench_history
) AS amounts
GROUP BY name;
