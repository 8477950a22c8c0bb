-- Pass through: the cost of reading and writing.
SELECT auction, bidder, price, dateTime, extra FROM bid
