-- Hot items: the auctions with the most bids of ten seconds, every two seconds.
WITH counts AS (
    SELECT auction, window(dateTime, '10 seconds', '2 seconds') AS period, count(*) AS num
    FROM bid
    GROUP BY auction, window(dateTime, '10 seconds', '2 seconds')
)
SELECT c.auction, c.period.start AS start_time, c.num
FROM counts c JOIN (SELECT period, max(num) AS most FROM counts GROUP BY period) m ON c.period = m.period
WHERE c.num >= m.most
