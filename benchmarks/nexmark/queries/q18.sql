-- Last bid of a person on an auction; of bids at one time the highest.
SELECT auction, bidder, price, channel, url, dateTime, extra
FROM (
    SELECT *, row_number() OVER (
        PARTITION BY bidder, auction ORDER BY dateTime DESC, price DESC, channel, extra
    ) AS place
    FROM bid
)
WHERE place = 1
