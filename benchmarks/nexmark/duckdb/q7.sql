SELECT b.auction, b.bidder, b.price, b.dateTime, b.extra
FROM bid b JOIN (
    SELECT max(price) AS highest, time_bucket(INTERVAL 10 SECONDS, dateTime) AS start_time
    FROM bid
    GROUP BY start_time
) m ON b.price = m.highest
WHERE b.dateTime BETWEEN m.start_time AND m.start_time + INTERVAL 10 SECONDS
