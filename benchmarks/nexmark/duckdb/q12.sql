SELECT bidder, count(*) AS bids, time_bucket(INTERVAL 10 SECONDS, dateTime) AS start_time,
    time_bucket(INTERVAL 10 SECONDS, dateTime) + INTERVAL 10 SECONDS AS end_time
FROM bid
GROUP BY bidder, time_bucket(INTERVAL 10 SECONDS, dateTime)
