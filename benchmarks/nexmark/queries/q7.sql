-- Highest bid: the bids with the highest price of each ten seconds.
SELECT b.auction, b.bidder, b.price, b.dateTime, b.extra
FROM bid b JOIN (
    SELECT max(price) AS highest, window.end AS end_time
    FROM bid
    GROUP BY window(dateTime, '10 seconds')
) m ON b.price = m.highest
WHERE b.dateTime BETWEEN m.end_time - INTERVAL '10' SECOND AND m.end_time
