-- Top ten bids of an auction by price.
SELECT *
FROM (
    SELECT *, row_number() OVER (
        PARTITION BY auction ORDER BY price DESC, dateTime, bidder, channel, extra
    ) AS place
    FROM bid
)
WHERE place <= 10
