SELECT b.auction, b.bidder, b.price, b.dateTime, b.extra
FROM bid b JOIN (
    SELECT max(price) AS highest, window_end AS end_time
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(rowtime), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end
) m ON b.price = m.highest
WHERE b.dateTime BETWEEN m.end_time - INTERVAL '10' SECOND AND m.end_time
