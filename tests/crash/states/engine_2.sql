-- A state of version 2, as the program of that version wrote it: its tables and their rows. One match is
-- not delivered.
CREATE TABLE applied("source" VARCHAR PRIMARY KEY, seq BIGINT);
INSERT INTO applied VALUES ('http://feeds.example/parts.xml', 2);
INSERT INTO applied VALUES ('http://feeds.example/sites.xml', 3);
CREATE TABLE dead_letters("source" VARCHAR, id VARCHAR, place VARCHAR, reason VARCHAR, "timestamp" BIGINT, "xml" BLOB);
CREATE TABLE documents(doc BIGINT, base BIGINT, "key" UBIGINT, "source" VARCHAR, id VARCHAR, streams VARCHAR[], "start" BIGINT, "end" BIGINT, dated BOOLEAN, "xml" BLOB);
INSERT INTO documents VALUES (1, 1, 5147411985110915312, 'http://feeds.example/parts.xml', 'p1', ['Parts', 'S'], 1791194400000000, 1791194400000000, true, '<item dated="yes"><channel_url>http://feeds.example/parts.xml</channel_url><channel_title>Parts</channel_title><guid>p1</guid><title>part 1</title><timestamp>2026-10-05T10:00:00Z</timestamp></item>'::BLOB);
INSERT INTO documents VALUES (2, 2, 3447873613375855638, 'http://feeds.example/parts.xml', 'p2', ['Parts', 'S'], 1791198000000000, 1791198000000000, true, '<item dated="yes"><channel_url>http://feeds.example/parts.xml</channel_url><channel_title>Parts</channel_title><guid>p2</guid><title>part 2</title><timestamp>2026-10-05T11:00:00Z</timestamp></item>'::BLOB);
INSERT INTO documents VALUES (3, 3, 4338212288983143558, 'http://feeds.example/sites.xml', 's1', ['Sites', 'S'], 1791201600000000, 1791201600000000, true, '<item dated="yes"><channel_url>http://feeds.example/sites.xml</channel_url><channel_title>Sites</channel_title><guid>s1</guid><title>part 1</title><timestamp>2026-10-05T12:00:00Z</timestamp></item>'::BLOB);
CREATE TABLE meta("key" VARCHAR PRIMARY KEY, "value" BIGINT);
INSERT INTO meta VALUES ('highest_timestamp', 1791201600000000);
INSERT INTO meta VALUES ('next_doc', 4);
INSERT INTO meta VALUES ('next_match', 2);
INSERT INTO meta VALUES ('version', 2);
CREATE TABLE outbox(n BIGINT, id VARCHAR, "match" VARCHAR, result BLOB USING COMPRESSION Uncompressed);
INSERT INTO outbox VALUES (1, 'fcde2d908cea5376a29148b57b7f7b22', '{"id":"fcde2d908cea5376a29148b57b7f7b22","query":"pair","stream":null,"start":1791194400000000,"end":1791201600000000,"documents":[["p1","Parts",1791194400000000],["s1","Sites",1791201600000000]],"values":{"t":["part 1"],"u":["part 1"]},"nodes":[0,0]}', '<result query="pair" start="2026-10-05T10:00:00Z" end="2026-10-05T12:00:00Z"><item dated="yes"><channel_url>http://feeds.example/parts.xml</channel_url><channel_title>Parts</channel_title><guid>p1</guid><title>part 1</title><timestamp>2026-10-05T10:00:00Z</timestamp></item><item dated="yes"><channel_url>http://feeds.example/sites.xml</channel_url><channel_title>Sites</channel_title><guid>s1</guid><title>part 1</title><timestamp>2026-10-05T12:00:00Z</timestamp></item></result>'::BLOB);
CREATE TABLE rl(doc BIGINT, base BIGINT, "start" BIGINT, "end" BIGINT, var1 INTEGER, var2 INTEGER, node1 BIGINT, node2 BIGINT, "value" UBIGINT, "text" VARCHAR, num DOUBLE);
INSERT INTO rl VALUES (1, 1, 1791194400000000, 1791194400000000, 1, 2, 0, 4, 16525148171679682233, NULL, NULL);
INSERT INTO rl VALUES (2, 2, 1791198000000000, 1791198000000000, 1, 2, 0, 4, 17010004746650723389, NULL, NULL);
INSERT INTO rl VALUES (3, 3, 1791201600000000, 1791201600000000, 1, 2, 0, 4, 16525148171679682233, NULL, NULL);
CREATE TABLE subscriptions(number BIGINT, id VARCHAR, "text" VARCHAR, first_doc BIGINT);
INSERT INTO subscriptions VALUES (1, 'pair', 'pair: S//item->x[./title->t] FOLLOWED BY {t = u, 1 day} S//item->y[./title->u]', 1);
CREATE TABLE variables(id INTEGER, definition VARCHAR);
INSERT INTO variables VALUES (1, 'S//item');
INSERT INTO variables VALUES (2, 'S//item/title');
