-- Bids of a person in each ten seconds. Nexmark takes the time of processing, which no table has; this is that of the bid.
SELECT bidder, count(*) AS bids, window.start AS start_time, window.end AS end_time
FROM bid
GROUP BY bidder, window(dateTime, '10 seconds')
