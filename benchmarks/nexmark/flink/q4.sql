SELECT category, avg(CAST(highest AS DOUBLE)) AS price
FROM (
    SELECT a.id, a.category, max(b.price) AS highest
    FROM auction a JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
    GROUP BY a.id, a.category
)
GROUP BY category
