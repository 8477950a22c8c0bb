SELECT seller, dateTime, avg(CAST(price AS DOUBLE)) OVER (
    PARTITION BY seller ORDER BY dateTime, id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW
) AS price
FROM (
    SELECT a.id, a.seller, b.price, b.dateTime,
        row_number() OVER (PARTITION BY a.id, a.seller ORDER BY b.price DESC, b.dateTime) AS place
    FROM auction a JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
)
WHERE place = 1
