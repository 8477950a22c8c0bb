SELECT auction, bidder, price, channel, url, dateTime, extra, place
FROM (
    SELECT auction, bidder, price, channel, url, dateTime, extra, row_number() OVER (
        PARTITION BY auction ORDER BY price DESC, dateTime, bidder, channel, extra
    ) AS place
    FROM bid
)
WHERE place <= 10
