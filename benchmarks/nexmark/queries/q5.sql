-- Hot items: the auctions with the most bids of ten seconds, every two seconds.
WITH counts AS (
    SELECT auction, window.start AS start_time, window.end AS end_time, count(*) AS num
    FROM bid
    GROUP BY auction, window(dateTime, '10 seconds', '2 seconds')
)
SELECT c.auction, c.start_time, c.num
FROM counts c JOIN (
    SELECT start_time, end_time, max(num) AS most
    FROM counts
    GROUP BY start_time, end_time
) m ON c.start_time = m.start_time AND c.end_time = m.end_time AND c.num >= m.most
