// Random but valid messages of every definition and version, written by the classes of Kafka itself, with what they mean.
// Run by make.sh; the lines it writes are described in tests/data/oracle.md.  Usage:
//   java -cp 'LIBDIR/*' Oracle.java LIBDIR LABEL SEED N N_OVERLAP KEYS_IN|- KEYS_OUT|- OUT.ndjson
import com.fasterxml.jackson.core.*;
import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.common.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*; // not in 3.9.1, for which make.sh deletes such lines
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*; // not in 3.9.1
import java.io.*;
import java.lang.reflect.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.zip.*;

public class Oracle {
    static final ObjectMapper M = new ObjectMapper();
    static final JsonNodeFactory F = JsonNodeFactory.instance;
    static { M.configure(JsonParser.Feature.ALLOW_COMMENTS, true);
             M.getFactory().configure(JsonGenerator.Feature.ESCAPE_NON_ASCII, true); }

    // ---------------------------------------------------------------- definitions
    static final class V {                        // version range
        final int lo, hi;
        V(String s) {
            if (s == null || s.equals("none") || s.isEmpty()) { lo = 1; hi = 0; }
            else if (s.endsWith("+")) { lo = Integer.parseInt(s.substring(0, s.length() - 1)); hi = 32767; }
            else if (s.contains("-")) { String[] p = s.split("-"); lo = Integer.parseInt(p[0]); hi = Integer.parseInt(p[1]); }
            else { lo = hi = Integer.parseInt(s); }
        }
        boolean has(int v) { return v >= lo && v <= hi; }
    }
    static final class Fld {
        String name, camel, type; V versions, nullable, tagged; int tag = -1; boolean ignorable; List<Fld> fields = new ArrayList<>();
        Fld(JsonNode n) {
            name = n.get("name").asText(); camel = Character.toLowerCase(name.charAt(0)) + name.substring(1);
            type = n.get("type").asText();
            String tv = n.has("taggedVersions") ? n.get("taggedVersions").asText() : "none";
            tagged = new V(tv); versions = new V(n.has("versions") ? n.get("versions").asText() : tv);
            nullable = new V(n.has("nullableVersions") ? n.get("nullableVersions").asText() : "none");
            if (n.has("tag")) tag = n.get("tag").asInt();
            if (n.has("fields")) for (JsonNode c : n.get("fields")) fields.add(new Fld(c));
        }
        String elem() { return type.startsWith("[]") ? type.substring(2) : type; }
    }
    static final class Def {
        String name, type, jar, pkg; int key = -1; V valid, flex; List<Fld> fields = new ArrayList<>(); Map<String, List<Fld>> common = new HashMap<>();
        String cls() { return pkg + "." + name + (type.equals("request") || type.equals("response") || type.equals("header") ? "Data" : ""); }
    }
    static final String[][] JARS = {
        {"kafka-clients", "org.apache.kafka.common.message", "common/message/"},
        {"kafka-group-coordinator", "org.apache.kafka.coordinator.group.generated", "common/message/"},
        {"kafka-transaction-coordinator", "org.apache.kafka.coordinator.transaction.generated", "common/message/"},
        {"kafka-share-coordinator", "org.apache.kafka.coordinator.share.generated", "common/message/"},
        {"kafka-metadata", "org.apache.kafka.common.metadata", "common/metadata/"},
        {"kafka-storage", "org.apache.kafka.server.log.remote.metadata.storage.generated", "message/"},
        {"kafka-streams", "org.apache.kafka.streams.internals.generated", "common/message/"}};

    static List<Def> load(Path lib, String label) throws Exception {
        List<Def> out = new ArrayList<>();
        for (String[] j : JARS) {
            Path p = lib.resolve(j[0] + "-" + label + ".jar");
            if (!Files.exists(p)) continue;
            try (ZipFile z = new ZipFile(p.toFile())) {
                TreeSet<String> names = new TreeSet<>();
                z.stream().forEach(e -> { if (e.getName().startsWith(j[2]) && e.getName().endsWith(".json")) names.add(e.getName()); });
                for (String n : names) {
                    JsonNode d = M.readTree(new String(z.getInputStream(z.getEntry(n)).readAllBytes(), StandardCharsets.UTF_8));
                    Def x = new Def(); x.name = d.get("name").asText(); x.type = d.get("type").asText(); x.jar = j[0]; x.pkg = j[1];
                    if (d.has("apiKey")) x.key = d.get("apiKey").asInt();
                    x.valid = new V(d.get("validVersions").asText());
                    x.flex = new V(d.has("flexibleVersions") ? d.get("flexibleVersions").asText() : "none");
                    if (d.has("fields")) for (JsonNode c : d.get("fields")) x.fields.add(new Fld(c));
                    if (d.has("commonStructs")) for (JsonNode c : d.get("commonStructs")) {
                        List<Fld> l = new ArrayList<>(); for (JsonNode f : c.get("fields")) l.add(new Fld(f)); x.common.put(c.get("name").asText(), l); }
                    if (x.valid.lo <= x.valid.hi) out.add(x);
                }
            }
        }
        return out;
    }

    // ---------------------------------------------------------------- random message generator
    static final class Gen {
        final SplittableRandom r; final Def d; final short v; final boolean flex; final String profile; int budget; boolean huge = false;
        final ArrayNode unknown = F.arrayNode(); final ArrayNode recs = F.arrayNode();
        Gen(SplittableRandom r, Def d, int v, String profile) { this.r = r; this.d = d; this.v = (short) v; this.flex = d != null && d.flex.has(v); this.profile = profile; this.huge = d == null; this.budget = profile.equals("full") ? 30 : 45; }
        boolean p(double x) { return r.nextDouble() < x; }
        List<Fld> fieldsOf(Fld f) { String t = f.elem(); return f.fields.isEmpty() ? d.common.getOrDefault(t, List.of()) : f.fields; }

        String str() {
            double x = r.nextDouble();
            if (x < .10) return "";
            if (x < .60) { StringBuilder b = new StringBuilder(); int n = 1 + r.nextInt(12); for (int i = 0; i < n; i++) b.append("abcdefghijklmnopqrstuvwxyz0123456789._-ABCXYZ".charAt(r.nextInt(45))); return b.toString(); }
            if (x < .85) {
                StringBuilder b = new StringBuilder(); int n = 1 + r.nextInt(8);
                int[] pool = {0, 9, 10, 13, '"', '\\', '/', 0x7f, 0x80, 0xe9, 0xdf, 0x416, 0x5d0, 0x301, 0x7ff, 0x800, 0x2028, 0x4e2d, 0x6587, 0xfffd, 0xfeff, 0xffff, 0x1f600, 0x1f468, 0x200d, 0x10348, 0x10ffff};
                for (int i = 0; i < n; i++) b.appendCodePoint(pool[r.nextInt(pool.length)]); return b.toString(); }
            if (x < .995 || huge) { int[] ls = {63, 64, 126, 127, 128, 129, 200, 255, 256, 300}; String u = p(.3) ? "\u00e9" : "" + (char) ('a' + r.nextInt(26)); return u.repeat(ls[r.nextInt(ls.length)]); }
            huge = true; int[] ls = {16382, 16383, 16384, 32767}; return "z".repeat(ls[r.nextInt(ls.length)]);
        }
        byte[] bytes() {
            double x = r.nextDouble(); int n = x < .15 ? 0 : x < .8 ? 1 + r.nextInt(16) : x < .95 ? 17 + r.nextInt(40) : 126 + r.nextInt(4);
            byte[] b = new byte[n]; for (int i = 0; i < n; i++) b[i] = (byte) r.nextInt(256); return b;
        }
        long integer(long min, long max) {
            double x = r.nextDouble();
            if (x < .12) return min; if (x < .24) return max; if (x < .32) return 0; if (x < .40) return Math.max(min, -1); if (x < .44) return 1;
            long y = r.nextLong() >> r.nextInt(64);
            if (y < min || y > max) { long span = max - min + 1; y = span <= 0 ? y : min + Math.floorMod(y, span); }
            return y;
        }
        double dbl() {
            double[] e = {0.0, -0.0, 1.0, -1.0, Double.MAX_VALUE, -Double.MAX_VALUE, Double.MIN_VALUE, 0.1, 1e300, Math.PI};
            return p(.6) ? e[r.nextInt(e.length)] : r.nextDouble() * Math.pow(10, r.nextInt(-20, 20));
        }
        Uuid uuid() { double x = r.nextDouble(); return x < .12 ? Uuid.ZERO_UUID : x < .2 ? new Uuid(0, 1) : x < .25 ? new Uuid(-1, -1) : new Uuid(r.nextLong(), r.nextLong()); }

        Object prim(String t, Class<?> target) {
            switch (t) {
                case "bool": return r.nextBoolean();
                case "int8": return (byte) integer(Byte.MIN_VALUE, Byte.MAX_VALUE);
                case "int16": return (short) integer(Short.MIN_VALUE, Short.MAX_VALUE);
                case "uint16": return (int) integer(0, 65535);
                case "int32": return (int) integer(Integer.MIN_VALUE, Integer.MAX_VALUE);
                case "uint32": return integer(0, 0xffffffffL);
                case "int64": return integer(Long.MIN_VALUE, Long.MAX_VALUE);
                case "float64": return dbl();
                case "string": return str();
                case "uuid": return uuid();
                case "bytes": byte[] b = bytes(); return target == ByteBuffer.class ? ByteBuffer.wrap(b) : b;
                default: return null;
            }
        }
        Object value(Fld f, Class<?> target, Class<?> root, String path) throws Exception {
            String t = f.type;
            if (t.equals("records")) return Recs.gen(this, path);
            if (!t.startsWith("[]")) {
                Object o = prim(t, target); if (o != null) return o;
                return struct(Class.forName(root.getName() + "$" + t), fieldsOf(f), root, path);
            }
            String e = f.elem();
            int n = profile.equals("full") ? 1 + r.nextInt(2) : r.nextInt(5);
            if (profile.equals("default")) n = 0;
            n = Math.min(n, Math.max(budget, profile.equals("full") ? 1 : 0));
            boolean isStruct = Character.isUpperCase(e.charAt(0)) || d.common.containsKey(e) || !f.fields.isEmpty();
            budget -= isStruct ? n * 2 : (n + 2) / 3;
            if (Collection.class.isAssignableFrom(target) && target != List.class) {        // ImplicitLinkedHashMultiCollection subclass
                Object c = target.getDeclaredConstructor().newInstance();
                Class<?> ec = Class.forName(root.getName() + "$" + e);
                Method add = null; for (Class<?> k = target; add == null; k = k.getSuperclass()) for (Method m : k.getDeclaredMethods()) if (m.getName().equals("add") && m.getParameterCount() == 1 && !m.isBridge()) add = m;
                for (int i = 0; i < n; i++) if (!(boolean) add.invoke(c, struct(ec, fieldsOf(f), root, path + "[" + i + "]"))) throw new IllegalStateException("add refused " + path);
                return c;
            }
            List<Object> l = new ArrayList<>();
            for (int i = 0; i < n; i++) {
                if (isStruct) l.add(struct(Class.forName(root.getName() + "$" + e), fieldsOf(f), root, path + "[" + i + "]"));
                else l.add(prim(e, e.equals("bytes") ? byte[].class : null));
            }
            return l;
        }
        Object struct(Class<?> cls, List<Fld> fs, Class<?> root, String path) throws Exception {
            Object o = cls.getDeclaredConstructor().newInstance();
            for (Fld f : fs) {
                if (!f.versions.has(v)) continue;                       // leave at default: absent in this version
                Method get = cls.getMethod(f.camel); Class<?> ty = get.getReturnType();
                Method set = null; for (Method m : cls.getMethods()) if (m.getName().equals("set" + Character.toUpperCase(f.name.charAt(0)) + f.name.substring(1)) && m.getParameterCount() == 1) set = m;
                boolean canNull = f.nullable.has(v), tagged = f.tagged.has(v);
                String fp = path.isEmpty() ? f.camel : path + "." + f.camel;
                if (path.isEmpty() && f.camel.equals("version") && !d.type.equals("request") && !d.type.equals("response")) {
                    set.invoke(o, ty == short.class ? (Object) (short) v : (Object) (int) v); continue; }
                if (profile.equals("default")) {
                    if (get.invoke(o) == null && !canNull) set.invoke(o, value(f, ty, root, fp));
                    continue;
                }
                if (tagged && !profile.equals("full") && p(.45)) continue;
                if (canNull && !ty.isPrimitive() && !profile.equals("full") && p(.22)) { set.invoke(o, new Object[]{null}); continue; }
                if (f.type.equals("int16") && f.name.endsWith("ErrorCode") && p(.7)) { set.invoke(o, (short) (p(.35) ? 0 : r.nextInt(-1, 132))); continue; }
                set.invoke(o, value(f, ty, root, fp));
            }
            if (d.name.equals("ApiVersionsResponse") && path.isEmpty() && v > 0 && ((ApiVersionsResponseData) o).errorCode() == 35) ((ApiVersionsResponseData) o).setErrorCode((short) 36);
            if (flex && !profile.equals("default") && p(profile.equals("full") ? (path.isEmpty() ? 1 : .25) : .07)) unknownTags(((Message) o).unknownTaggedFields(), path);
            return o;
        }
        void unknownTags(List<RawTaggedField> l, String path) {
            TreeMap<Integer, byte[]> t = new TreeMap<>(); int n = 1 + r.nextInt(2);
            for (int i = 0; i < n; i++) { double x = r.nextDouble(); t.put(x < .5 ? 40 + r.nextInt(88) : x < .85 ? 128 + r.nextInt(16256) : x < .97 ? 16384 + r.nextInt(1 << 20) : Integer.MAX_VALUE - 1, bytes()); }
            ArrayNode a = F.arrayNode();
            t.forEach((k, b) -> { l.add(new RawTaggedField(k, b)); a.add(F.arrayNode().add(k).add(hex(b))); });
            unknown.add(F.objectNode().put("path", path).set("tags", a));
        }
    }

    // ---------------------------------------------------------------- record batches
    static final class Recs {
        static int serial = 0;                                            // rotates codecs / kinds so that every combination occurs
        static MemoryRecords gen(Gen g, String path) throws Exception {
            String api = g.d.name; int v = g.v; SplittableRandom r = g.r;
            boolean fetch = !api.startsWith("Produce"), snapshot = api.startsWith("FetchSnapshot");
            int lo = 2, hi = 2; boolean zstd = true;
            if (api.equals("ProduceRequest")) { if (v < 2) lo = hi = 0; else if (v == 2) { lo = g.p(.3) ? 0 : 1; hi = 1; } zstd = v >= 7; }
            if (api.equals("FetchResponse")) { if (v < 2) lo = hi = 0; else if (v < 4) { lo = 0; hi = 1; } else if (g.p(.3)) lo = 0; zstd = v >= 10; }
            int n = g.p(.08) ? 0 : 1 + (fetch ? r.nextInt(3) : g.p(.15) ? 1 : 0);
            if (g.profile.equals("default")) n = 0; if (g.profile.equals("full")) n = Math.max(1, n);
            ByteArrayOutputStream all = new ByteArrayOutputStream(); int lastSize = 0;
            long base = fetch ? (g.p(.15) ? r.nextLong(1L << 40) : r.nextInt(100000)) : 0;
            for (int i = 0; i < n; i++) {
                byte[] b = one(g, lo == hi ? lo : lo + r.nextInt(hi - lo + 1), zstd, base, fetch);
                all.write(b); lastSize = b.length; base += 1000 + r.nextInt(1000);
            }
            byte[] buf = all.toByteArray();
            if (fetch && n > 0 && g.p(snapshot ? .5 : .25)) { int cut = 1 + r.nextInt(lastSize); buf = Arrays.copyOf(buf, buf.length - cut); }
            MemoryRecords mr = MemoryRecords.readableRecords(ByteBuffer.wrap(buf));
            ObjectNode d = describe(mr); d.put("field_path", path); g.recs.add(d);
            return mr;
        }
        static byte[] val(Gen g, boolean big) {
            if (big) return ("{\"k\":\"" + (char) ('a' + g.r.nextInt(26)) + "lorem ipsum dolor\"}\n").repeat(3200 + g.r.nextInt(3000)).getBytes(StandardCharsets.UTF_8);
            double x = g.r.nextDouble();
            if (x < .25) return g.bytes();
            if (x < .7) return ("value-" + g.r.nextInt(1000)).getBytes(StandardCharsets.UTF_8);
            if (x < .85) return g.str().getBytes(StandardCharsets.UTF_8);
            return ("abcabcabc" + g.r.nextInt(10)).repeat(1 + g.r.nextInt(60)).getBytes(StandardCharsets.UTF_8);
        }
        static byte[] one(Gen g, int magic, boolean zstd, long base, boolean fetch) throws Exception {
            SplittableRandom r = g.r; int s = serial++;
            CompressionType[] cs = magic < 2 || !zstd ? new CompressionType[]{CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4}
                : new CompressionType[]{CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4, CompressionType.ZSTD};
            CompressionType c = cs[s % cs.length]; int kind = (s / cs.length) % 12;
            TimestampType tt = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : kind == 1 || kind == 7 ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
            long now = g.p(.05) ? 0 : 1500000000000L + r.nextLong(500000000000L);
            long pid = RecordBatch.NO_PRODUCER_ID; short pe = RecordBatch.NO_PRODUCER_EPOCH; int seq = RecordBatch.NO_SEQUENCE; boolean txn = false, ctl = false; long horizon = RecordBatch.NO_TIMESTAMP;
            int ple = fetch ? (g.p(.2) ? -1 : r.nextInt(1000)) : -1;
            if (magic == 2) {
                if (kind == 2 || kind == 3 || kind == 6) { pid = g.p(.2) ? Long.MAX_VALUE : r.nextInt(100000); pe = (short) r.nextInt(32768); seq = g.p(.2) ? Integer.MAX_VALUE - 1 : r.nextInt(10000); txn = kind != 2; }
                if (fetch && (kind == 4 || kind == 9)) { ctl = true; c = CompressionType.NONE; }
                if (fetch && kind == 6) horizon = now + 86400000L;
                if (fetch && kind == 8) {                                 // compacted-away batch: header only
                    ByteBuffer b = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
                    DefaultRecordBatch.writeEmptyHeader(b, (byte) 2, 7L, (short) 3, 12, base, base + r.nextInt(50), ple, tt, now, g.p(.5), g.p(.2));
                    return Arrays.copyOf(b.array(), b.position());
                }
            }
            boolean endtxn = false; int ct = 0;
            if (ctl) { ple = Math.max(ple, 0); ct = r.nextInt(6); endtxn = ct < 2; if (endtxn) { pid = r.nextInt(100000); pe = (short) r.nextInt(100); txn = true; } }
            ByteBufferOutputStream os = new ByteBufferOutputStream(1024);
            MemoryRecordsBuilder b = new MemoryRecordsBuilder(os, (byte) magic, Compression.of(c).build(), tt, base, now, pid, pe, seq, txn, ctl, ple, Integer.MAX_VALUE, horizon);
            if (ctl) {
                if (endtxn) b.appendEndTxnMarker(now, new EndTransactionMarker(ct == 0 ? ControlRecordType.ABORT : ControlRecordType.COMMIT, r.nextInt(1000)));
                else if (ct == 2) { short lv = (short) r.nextInt(2); b.appendControlRecord(now, ControlRecordType.LEADER_CHANGE, ByteBuffer.wrap(ser((Message) sub(g, "LeaderChangeMessage", lv), lv))); }
                else if (ct == 3) b.appendSnapshotHeaderMessage(now, (SnapshotHeaderRecord) sub(g, "SnapshotHeaderRecord"));
                else if (ct == 4) b.appendSnapshotFooterMessage(now, (SnapshotFooterRecord) sub(g, "SnapshotFooterRecord"));
                else { b.appendKRaftVersionMessage(now, (KRaftVersionRecord) sub(g, "KRaftVersionRecord")); b.appendVotersMessage(now, (VotersRecord) sub(g, "VotersRecord")); }
            } else {
                int n = 1 + r.nextInt(kind == 5 ? 20 : 5); long off = base; boolean gaps = fetch && kind % 3 == 0; boolean big = c != CompressionType.NONE && g.p(.04);
                for (int i = 0; i < n; i++) {
                    long ts = magic == 0 ? RecordBatch.NO_TIMESTAMP : g.p(.1) && now > 0 ? Math.max(0, now - r.nextInt(1000000)) : now + (g.p(.5) ? r.nextInt(5000) : r.nextLong(1L << 33));
                    byte[] k = g.p(.3) ? null : val(g, false), x = g.p(.15) ? null : val(g, big && i == 0);
                    Header[] hs = new Header[magic == 2 && g.p(.4) ? 1 + r.nextInt(3) : 0];
                    for (int h = 0; h < hs.length; h++) hs[h] = new RecordHeader(g.p(.7) ? "h" + r.nextInt(5) : g.str(), g.p(.2) ? null : g.bytes());
                    if (magic == 2) b.appendWithOffset(off, ts, k, x, hs); else b.appendWithOffset(off, ts, k, x);
                    off += gaps ? 1 + r.nextInt(4) : 1;
                }
            }
            b.close();
            ByteBuffer bb = b.build().buffer().duplicate(); byte[] out = new byte[bb.remaining()]; bb.get(out);
            // librdkafka-style produce wrapper: outer offset 0 with relative inner offsets (offset is not covered by the v0/v1 CRC)
            if (!fetch && magic == 1 && c != CompressionType.NONE && g.p(.5)) Arrays.fill(out, 0, 8, (byte) 0);
            return out;
        }
        static Object sub(Gen g, String name) throws Exception { return sub(g, name, 0); }
        static Object sub(Gen g, String name, int v) throws Exception {
            Def d = DEFS.get(name); Gen q = new Gen(g.r, d, v, "random");
            Class<?> k = Class.forName(d.cls()); return q.struct(k, d.fields, k, "");
        }
        static ObjectNode describe(MemoryRecords mr) {
            ObjectNode o = F.objectNode(); ArrayNode bs = o.putArray("batches"); int seen = 0;
            for (RecordBatch b : mr.batches()) {
                ObjectNode n = bs.addObject(); b.ensureValid(); seen += b.sizeInBytes();
                n.put("base_offset", b.baseOffset()).put("last_offset", b.lastOffset()).put("magic", b.magic()).put("compression", b.compressionType().name.toLowerCase(Locale.ROOT));
                if (b.magic() == 2) n.put("first_timestamp", ((DefaultRecordBatch) b).baseTimestamp()); else n.putNull("first_timestamp");
                n.put("max_timestamp", b.maxTimestamp()).put("timestamp_type", b.timestampType().name()).put("producer_id", b.producerId()).put("producer_epoch", b.producerEpoch()).put("base_sequence", b.baseSequence());
                n.put("is_transactional", b.isTransactional()).put("is_control", b.isControlBatch()).put("partition_leader_epoch", b.partitionLeaderEpoch()).put("crc", b.checksum());
                if (b.deleteHorizonMs().isPresent()) n.put("delete_horizon_ms", b.deleteHorizonMs().getAsLong()); else n.putNull("delete_horizon_ms");
                n.put("size_in_bytes", b.sizeInBytes());
                ArrayNode rs = n.putArray("records");
                for (var it = b.streamingIterator(BufferSupplier.NO_CACHING); it.hasNext(); ) {
                    var x = it.next(); ObjectNode q = rs.addObject(); q.put("offset", x.offset()).put("timestamp", x.timestamp());
                    if (x.hasKey()) q.put("key", hex(x.key())); else q.putNull("key");
                    if (x.hasValue()) q.put("value", hex(x.value())); else q.putNull("value");
                    ArrayNode hs = q.putArray("headers"); for (Header h : x.headers()) { ArrayNode a = hs.addArray().add(h.key()); if (h.value() == null) a.addNull(); else a.add(hex(h.value())); }
                    if (b.isControlBatch()) q.put("control_type", ControlRecordType.parse(x.key()).name());
                }
            }
            o.put("trailing_bytes", mr.sizeInBytes() - seen); return o;
        }
    }

    // ---------------------------------------------------------------- definition-driven JSON converter (cross-check of the generated ones; the only one for SubscriptionInfoData)
    static ObjectNode toJson(Def d, Object o, List<Fld> fs, short v) throws Exception {
        ObjectNode n = F.objectNode(); Object def = o.getClass().getDeclaredConstructor().newInstance();
        for (Fld f : fs) {
            if (!f.versions.has(v)) continue;
            Object x = o.getClass().getMethod(f.camel).invoke(o);
            if (f.tagged.has(v)) { Object y = def.getClass().getMethod(f.camel).invoke(def); if (x instanceof byte[] ? y != null && Arrays.equals((byte[]) x, (byte[]) y) : Objects.equals(x, y)) continue; }
            if (f.type.equals("records")) { if (x == null) n.putNull(f.camel); else n.put(f.camel + "SizeInBytes", ((BaseRecords) x).sizeInBytes()); continue; }
            List<Fld> sub = f.fields.isEmpty() ? d.common.getOrDefault(f.elem(), List.of()) : f.fields;
            if (x instanceof Collection) { ArrayNode a = n.putArray(f.camel); for (Object e : (Collection<?>) x) a.add(node(d, e, sub, v)); }
            else n.set(f.camel, node(d, x, sub, v));
        }
        return n;
    }
    static JsonNode node(Def d, Object x, List<Fld> sub, short v) throws Exception {
        if (x == null) return NullNode.instance;
        if (x instanceof Boolean) return F.booleanNode((Boolean) x);
        if (x instanceof Double) return F.numberNode((Double) x);
        if (x instanceof Number) return F.numberNode(((Number) x).longValue());
        if (x instanceof byte[]) return F.textNode(Base64.getEncoder().encodeToString((byte[]) x));
        if (x instanceof ByteBuffer) return F.textNode(Base64.getEncoder().encodeToString(MessageUtil.byteBufferToArray((ByteBuffer) x)));
        if (x instanceof String || x instanceof Uuid) return F.textNode(x.toString());
        return toJson(d, x, sub, v);
    }

    // ---------------------------------------------------------------- serialisation
    static byte[] ser(Message m, short v) {
        ObjectSerializationCache c = new ObjectSerializationCache(); int n = m.size(c, v); ByteBuffer b = ByteBuffer.allocate(n);
        m.write(new ByteBufferAccessor(b), c, v); if (b.hasRemaining()) throw new IllegalStateException("size mismatch"); return b.array();
    }
    static void reread(Message m, byte[] w, short v) throws Exception {
        ByteBuffer b = ByteBuffer.wrap(w); Message x = (Message) m.getClass().getConstructor(Readable.class, short.class).newInstance(new ByteBufferAccessor(b), v);
        if (b.hasRemaining()) throw new IllegalStateException("trailing bytes after re-read");
        if (!x.equals(m)) throw new IllegalStateException("re-read differs:\n" + m + "\n" + x);
        if (!Arrays.equals(ser(x, v), w)) throw new IllegalStateException("re-serialised bytes differ");
    }
    static JsonNode conv(Object m, short v) throws Exception {
        Class<?> k = Class.forName(m.getClass().getName() + "JsonConverter");
        return (JsonNode) k.getMethod("write", m.getClass(), short.class, boolean.class).invoke(null, m, v, false);
    }
    static String hex(byte[] b) { StringBuilder s = new StringBuilder(b.length * 2); for (byte x : b) { s.append(Character.forDigit((x >> 4) & 15, 16)).append(Character.forDigit(x & 15, 16)); } return s.toString(); }
    static String hex(ByteBuffer b) { byte[] x = new byte[b.remaining()]; b.duplicate().get(x); return hex(x); }
    static byte[] cat(byte[]... a) { ByteArrayOutputStream o = new ByteArrayOutputStream(); for (byte[] x : a) o.writeBytes(x); return o.toByteArray(); }
    static byte[] i16(int x) { return new byte[]{(byte) (x >> 8), (byte) x}; }
    static byte[] i32(int x) { return ByteBuffer.allocate(4).putInt(x).array(); }
    static byte[] uvar(int x) { ByteBuffer b = ByteBuffer.allocate(5); ByteUtils.writeUnsignedVarint(x, b); return Arrays.copyOf(b.array(), b.position()); }
    static SplittableRandom rnd(long seed, String k) { long h = seed * 0x9E3779B97F4A7C15L; for (char c : k.toCharArray()) h = (h ^ c) * 0x100000001B3L; return new SplittableRandom(h ^ (h >>> 29)); }

    static final Map<String, Def> DEFS = new HashMap<>();
    static BufferedWriter out; static String label; static TreeMap<String, Integer> counts = new TreeMap<>(); static int cross = 0, failed = 0;
    static void emit(ObjectNode n) throws IOException { out.write(M.writeValueAsString(n)); out.write('\n'); counts.merge(n.get("dir").asText(), 1, Integer::sum); }
    static ObjectNode head(String api, int key, String dir, int v) { ObjectNode n = F.objectNode().put("from", label).put("api", api); if (key >= 0) n.put("key", key); else n.putNull("key"); return n.put("dir", dir).put("version", v); }

    public static void main(String[] a) throws Exception {
        Path lib = Paths.get(a[0]); label = a[1]; long seed = Long.parseLong(a[2]); int n = Integer.parseInt(a[3]), nOver = Integer.parseInt(a[4]);
        Set<String> have = a[5].equals("-") ? Set.of() : new HashSet<>(Files.readAllLines(Paths.get(a[5]))); List<String> keys = new ArrayList<>();
        out = Files.newBufferedWriter(Paths.get(a[7]));
        List<Def> defs = load(lib, label); for (Def d : defs) DEFS.put(d.name, d);
        for (Def d : defs) {
            if (d.type.equals("header")) continue;                         // exercised by every frame and by headers()
            if (List.of("ProducerSnapshot", "QuorumStateData", "AbortedTxn").contains(d.name)) continue; // on-disk only
            boolean rec = hasRecords(d);
            for (int v = d.valid.lo; v <= d.valid.hi; v++) {
                String key = d.jar + "|" + d.name + "|" + v; keys.add(key);
                int cnt = have.contains(key) ? nOver : n; if (rec) cnt *= 3;
                for (int i = 0; i < cnt; i++) {
                    String profile = i == 0 ? "full" : i == 1 && cnt > 2 ? "default" : "random";
                    try { sample(d, (short) v, i, profile, rnd(seed, label + key + "#" + i)); }
                    catch (Throwable e) { Throwable c = e instanceof InvocationTargetException ? e.getCause() : e; failed++; System.err.println("FAIL " + key + " " + profile + ": " + c); if (failed < 4) c.printStackTrace(); }
                }
            }
        }
        fallback(seed, n); headers(seed, n); sticky(seed, n); connect(seed, n); streams(seed, n);
        out.close(); if (!a[6].equals("-")) Files.write(Paths.get(a[6]), keys);
        System.err.println(label + " " + counts + " converter cross-checks " + cross + " failures " + failed); if (failed > 0) System.exit(1);
    }
    static boolean hasRecords(Def d) { return d.fields.stream().anyMatch(f -> rec(f, d)); }
    static boolean rec(Fld f, Def d) { return f.type.equals("records") || (f.fields.isEmpty() ? d.common.getOrDefault(f.elem(), List.of()) : f.fields).stream().anyMatch(x -> rec(x, d)); }

    static void sample(Def d, short v, int i, String profile, SplittableRandom r) throws Exception {
        Class<?> k = Class.forName(d.cls()); Gen g = new Gen(r, d, v, profile);
        Message m = (Message) g.struct(k, d.fields, k, "");
        byte[] body = ser(m, v); reread(m, body, v);
        boolean rr = d.type.equals("request") || d.type.equals("response");
        String api = rr ? d.name.substring(0, d.name.length() - d.type.length()) : d.name;
        ObjectNode mine = toJson(d, m, d.fields, v); JsonNode json = mine;
        try { json = conv(m, v); cross++;
            if (!M.readTree(M.writeValueAsString(json)).equals(M.readTree(M.writeValueAsString(mine)))) throw new IllegalStateException("converter differs\n" + json + "\n" + mine);
        } catch (ClassNotFoundException e) { /* streams has no converter */ }
        if (rr) {
            if (d.type.equals("request")) api = d.name.replaceAll("Request$", ""); else api = d.name.replaceAll("Response$", "");
            ApiMessageType t = ApiMessageType.fromApiKey((short) d.key); boolean req = d.type.equals("request");
            short hv = req ? t.requestHeaderVersion(v) : t.responseHeaderVersion(v);
            int corr = (int) g.integer(Integer.MIN_VALUE, Integer.MAX_VALUE); ApiMessage h; 
            if (req) { RequestHeaderData q = new RequestHeaderData(); q.setRequestApiKey((short) d.key).setRequestApiVersion(v).setCorrelationId(corr);
                if (hv >= 1) { String c = r.nextInt(8) == 0 ? null : r.nextInt(4) == 0 ? g.str() : "client-" + r.nextInt(100); q.setClientId(c); }
                h = q; } else h = new ResponseHeaderData().setCorrelationId(corr);
            if (req ? hv >= 2 : hv >= 1) if (r.nextInt(8) == 0) g.unknownTags(h.unknownTaggedFields(), "$header");
            byte[] hb = ser(h, hv); reread(h, hb, hv);
            ObjectNode n = head(api, d.key, d.type, v).put("header_version", hv).put("sample", i).put("profile", profile);
            n.put("hex", hex(body)); n.set("json", json); n.set("header", conv(h, hv)); if (!g.unknown.isEmpty()) n.set("unknown_tags", g.unknown); if (!g.recs.isEmpty()) n.set("records", g.recs);
            n.put("frame_hex", hex(cat(i32(hb.length + body.length), hb, body))); emit(n); return;
        }
        // ---- non-request schemas: frame_hex = the form in which they travel / are stored
        byte[] wire; String kind, topic = null; Integer type = null;
        if (d.jar.equals("kafka-clients")) {
            boolean self = Set.of("LeaderChangeMessage", "SnapshotHeaderRecord", "SnapshotFooterRecord", "KRaftVersionRecord", "VotersRecord").contains(d.name);
            kind = d.name.startsWith("ConsumerProtocol") ? "consumer-protocol" : d.name.equals("DefaultPrincipalData") ? "principal" : "control-record";
            wire = self ? body : cat(i16(v), body);
            if (!self) check(wire, MessageUtil.toVersionPrefixedBytes(v, m), d.name);
        } else if (d.jar.equals("kafka-streams")) { kind = "streams-userdata"; wire = body; }
        else if (d.jar.equals("kafka-metadata") || d.jar.equals("kafka-storage")) {
            kind = d.jar.equals("kafka-metadata") ? "metadata-record" : "remote-log-metadata-record"; topic = d.jar.equals("kafka-metadata") ? "__cluster_metadata" : "__remote_log_metadata"; type = d.key;
            wire = cat(uvar(1), uvar(d.key), uvar(v), body);
            if (d.jar.equals("kafka-metadata")) checkMetadata(wire, (ApiMessage) m, v);
        } else {
            boolean isKey = d.name.endsWith("Key"); kind = isKey ? "coordinator-key" : "coordinator-value";
            topic = d.jar.equals("kafka-group-coordinator") ? "__consumer_offsets" : d.jar.equals("kafka-transaction-coordinator") ? "__transaction_state" : "__share_group_state";
            boolean typed = d.type.startsWith("coordinator");                     // 4.x: key prefix = record type (apiKey); 3.9: key prefix = "version" which is the record type
            if (typed) type = d.key; else if (isKey) type = (int) v; else { Def kd = DEFS.get(d.name.replaceAll("Value$", "Key")); type = kd == null ? null : kd.valid.hi; }
            wire = cat(i16(isKey && typed ? d.key : v), body);
            if (isKey && typed) check(wire, (byte[]) MessageUtil.class.getMethod("toCoordinatorTypePrefixedBytes", ApiMessage.class).invoke(null, m), d.name);
            else check(wire, MessageUtil.toVersionPrefixedBytes(v, m), d.name);
        }
        ObjectNode n = head(d.name, type == null ? -1 : type, "data", v).put("kind", kind); if (topic != null) n.put("topic", topic);
        n.put("sample", i).put("profile", profile).put("hex", hex(body)); n.set("json", json); if (!g.unknown.isEmpty()) n.set("unknown_tags", g.unknown); n.put("frame_hex", hex(wire)); emit(n);
    }
    static void check(byte[] a, byte[] b, String w) { if (!Arrays.equals(a, b)) throw new IllegalStateException("wire form of " + w); }
    static void checkMetadata(byte[] wire, ApiMessage m, short v) throws Exception {
        Class<?> sc = Class.forName("org.apache.kafka.metadata.MetadataRecordSerde"), am = Class.forName("org.apache.kafka.server.common.ApiMessageAndVersion"); Object s = sc.getField("INSTANCE").get(null);
        Object amv = am.getConstructor(ApiMessage.class, short.class).newInstance(m, v); ObjectSerializationCache c = new ObjectSerializationCache(); int n = -1; ByteBuffer b = ByteBuffer.allocate(wire.length + 64);
        for (Method x : sc.getMethods()) if (x.getName().equals("recordSize") && x.getParameterTypes()[0] == am) n = (int) x.invoke(s, amv, c);
        for (Method x : sc.getMethods()) if (x.getName().equals("write") && x.getParameterTypes()[0] == am) x.invoke(s, amv, c, new ByteBufferAccessor(b));
        check(wire, Arrays.copyOf(b.array(), b.position()), m.getClass().getSimpleName()); if (n != wire.length) throw new IllegalStateException("recordSize");
    }

    // ---------------------------------------------------------------- hand-written payloads
    static void plain(String api, int v, String kind, int i, byte[] wire, ObjectNode json) throws IOException { ObjectNode n = head(api, -1, "data", v).put("kind", kind).put("sample", i).put("profile", "random").put("hex", hex(wire)); n.set("json", json); n.put("frame_hex", hex(wire)); emit(n); }
    static byte[] arr(ByteBuffer b) { byte[] x = new byte[b.remaining()]; b.duplicate().get(x); return x; }

    // A broker answers an ApiVersions request of a version it does not know with a VERSION 0 body, error 35 (KIP-35 / KIP-511).
    static void fallback(long seed, int n) throws Exception {
        for (int q : new int[]{1, 2, 3, 4, 5, 99}) for (int i = 0; i < 2; i++) {
            SplittableRandom r = rnd(seed, label + "fallback" + q + i); ApiVersionsResponseData m = new ApiVersionsResponseData().setErrorCode((short) 35);
            if (i == 1) m.apiKeys().add(new ApiVersionsResponseData.ApiVersion().setApiKey((short) 18).setMinVersion((short) 0).setMaxVersion((short) Math.min(4, Math.max(0, q - 1))));
            byte[] b = ser(m, (short) 0); reread(m, b, (short) 0); ResponseHeaderData h = new ResponseHeaderData().setCorrelationId(r.nextInt()); byte[] hb = ser(h, (short) 0);
            ObjectNode n2 = head("ApiVersions", 18, "response-fallback", 0).put("requested_version", q).put("header_version", 0).put("sample", i).put("profile", "special").put("hex", hex(b)); n2.set("json", conv(m, (short) 0)); n2.set("header", conv(h, (short) 0)); n2.put("frame_hex", hex(cat(i32(hb.length + b.length), hb, b))); emit(n2);
        }
    }
    static void headers(long seed, int n) throws Exception {
        for (String nm : List.of("RequestHeader", "ResponseHeader")) { Def d = DEFS.get(nm); Class<?> k = Class.forName(d.cls());
            for (int v = d.valid.lo; v <= d.valid.hi; v++) for (int i = 0; i < n + 3; i++) {
                Gen g = new Gen(rnd(seed, label + nm + v + "#" + i), d, v, i == 0 ? "full" : i == 1 ? "default" : "random"); Message m = (Message) g.struct(k, d.fields, k, "");
                byte[] b = ser(m, (short) v); reread(m, b, (short) v);
                ObjectNode o = head(nm, -1, "header", v).put("kind", "header").put("sample", i).put("profile", g.profile).put("hex", hex(b)); o.set("json", conv(m, (short) v)); if (!g.unknown.isEmpty()) o.set("unknown_tags", g.unknown); o.put("frame_hex", hex(b)); emit(o);
            } }
    }
    static void sticky(long seed, int n) throws Exception {
        Class<?> sa = Class.forName("org.apache.kafka.clients.consumer.StickyAssignor");
        Method ser = sa.getDeclaredMethod("serializeTopicPartitionAssignment", AbstractStickyAssignor.MemberData.class), de = sa.getDeclaredMethod("deserializeTopicPartitionAssignment", ByteBuffer.class); ser.setAccessible(true); de.setAccessible(true);
        for (int v = 0; v < 2; v++) for (int i = 0; i < n + 3; i++) {
            Gen g = new Gen(rnd(seed, label + "sticky" + v + i), null, 0, "random"); LinkedHashMap<String, List<Integer>> m = new LinkedHashMap<>(); int nt = g.r.nextInt(4);
            for (int t = 0; t < nt; t++) { List<Integer> ps = new ArrayList<>(); int np = 1 + g.r.nextInt(4); for (int p = 0; p < np; p++) ps.add(g.r.nextInt(1000)); m.put("t" + g.str(), ps); }
            Integer gen = v == 0 ? null : g.p(.2) ? -1 : g.r.nextInt(100000);
            List<TopicPartition> tps = new ArrayList<>(); m.forEach((t, ps) -> ps.forEach(p -> tps.add(new TopicPartition(t, p))));
            byte[] w;
            if (v == 1) w = arr((ByteBuffer) ser.invoke(null, new AbstractStickyAssignor.MemberData(tps, Optional.ofNullable(gen))));
            else { java.lang.reflect.Field f0 = sa.getDeclaredField("STICKY_ASSIGNOR_USER_DATA_V0"), f1 = sa.getDeclaredField("TOPIC_ASSIGNMENT"); f0.setAccessible(true); f1.setAccessible(true); Schema s0 = (Schema) f0.get(null), s1 = (Schema) f1.get(null);
                Struct st = new Struct(s0); List<Struct> l = new ArrayList<>(); m.forEach((t, ps) -> { Struct q = new Struct(s1); q.set("topic", t); q.set("partitions", ps.toArray()); l.add(q); }); st.set("previous_assignment", l.toArray());
                ByteBuffer b = ByteBuffer.allocate(s0.sizeOf(st)); s0.write(b, st); w = b.array(); }
            AbstractStickyAssignor.MemberData md = (AbstractStickyAssignor.MemberData) de.invoke(null, ByteBuffer.wrap(w));
            if (!new HashSet<>(md.partitions).equals(new HashSet<>(tps))) throw new IllegalStateException("sticky");
            // order on the wire is that of a HashMap: read it back from the bytes
            ObjectNode o = F.objectNode(); ArrayNode pa = o.putArray("previousAssignment"); ByteBuffer b = ByteBuffer.wrap(w); int c = b.getInt();
            for (int t = 0; t < c; t++) { byte[] s = new byte[b.getShort()]; b.get(s); ObjectNode q = pa.addObject().put("topic", new String(s, StandardCharsets.UTF_8)); ArrayNode ps = q.putArray("partitions"); int k = b.getInt(); for (int p = 0; p < k; p++) ps.add(b.getInt()); }
            if (v == 1) o.put("generation", b.getInt()); if (b.hasRemaining()) throw new IllegalStateException();
            plain("StickyAssignorUserData", v, "consumer-userdata", i, w, o);
        }
        for (int i = 0; i < 3; i++) { int gen = i == 0 ? -1 : rnd(seed, label + "coop" + i).nextInt(1 << 30); plain("CooperativeStickyAssignorUserData", 0, "consumer-userdata", i, i32(gen), F.objectNode().put("generation", gen)); }
    }
    static ArrayNode tasks(Collection<org.apache.kafka.connect.util.ConnectorTaskId> l) { ArrayNode a = F.arrayNode(); for (var t : l) a.addObject().put("connector", t.connector()).put("task", t.task()); return a; }
    static void connect(long seed, int n) throws Exception {
        for (int v = 0; v < 3; v++) for (int i = 0; i < n + 3; i++) {
            Gen g = new Gen(rnd(seed, label + "connect" + v + i), null, 0, "random"); String url = "http://" + g.str() + ":8083/"; long off = g.integer(-1, Long.MAX_VALUE); short err = (short) g.r.nextInt(3); String leader = "connect-" + g.str(); boolean empty = g.p(.25);
            List<String> cs = new ArrayList<>(), rc = new ArrayList<>(); List<org.apache.kafka.connect.util.ConnectorTaskId> ts = new ArrayList<>(), rt = new ArrayList<>();
            for (int k = 0; k < 2; k++) { List<String> c = k == 0 ? cs : rc; var t = k == 0 ? ts : rt; int nc = g.r.nextInt(3); for (int q = 0; q < nc; q++) { String name = "c" + q + g.str(); if (g.p(.7)) c.add(name); int nt = g.r.nextInt(3); for (int z = 0; z < nt; z++) t.add(new org.apache.kafka.connect.util.ConnectorTaskId(name, g.r.nextInt(50))); } }
            int delay = g.r.nextInt(100000);
            byte[] as, md; ObjectNode ja, jm;
            if (v == 0) {
                as = arr(org.apache.kafka.connect.runtime.distributed.ConnectProtocol.serializeAssignment(new org.apache.kafka.connect.runtime.distributed.ConnectProtocol.Assignment(err, leader, url, off, cs, ts)));
                var x = org.apache.kafka.connect.runtime.distributed.ConnectProtocol.deserializeAssignment(ByteBuffer.wrap(as)); ja = ca(v, x.error(), x.leader(), x.leaderUrl(), x.offset()); ja.set("wire", connectStruct(ByteBuffer.wrap(as), 0, false, false));
                md = arr(org.apache.kafka.connect.runtime.distributed.ConnectProtocol.serializeMetadata(new org.apache.kafka.connect.runtime.distributed.ConnectProtocol.WorkerState(url, off)));
                jm = F.objectNode().put("version", 0).put("url", url).put("configOffset", off);
            } else {
                var ea = new org.apache.kafka.connect.runtime.distributed.ExtendedAssignment((short) v, err, leader, url, off, cs, ts, rc, rt, delay);
                as = arr(org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol.serializeAssignment(ea, v == 2));
                var x = org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol.deserializeAssignment(ByteBuffer.wrap(as)); ja = ca(v, x.error(), x.leader(), x.leaderUrl(), x.offset()); ja.set("wire", connectStruct(ByteBuffer.wrap(as), v, true, false)); ja.put("scheduledDelay", x.delay());
                md = arr(org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol.serializeMetadata(new org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState(url, off, empty ? null : ea), v == 2));
                var y = org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol.deserializeMetadata(ByteBuffer.wrap(md));
                jm = F.objectNode().put("version", v).put("url", y.url()).put("configOffset", y.offset());
                // allocation: nullable bytes = a whole serialised assignment (with its own version header); null/empty if there is none
                ByteBuffer b = ByteBuffer.wrap(md); b.getShort(); byte[] s = new byte[b.getShort()]; b.get(s); b.getLong(); int len = b.getInt(); byte[] al = null; if (len >= 0) { al = new byte[len]; b.get(al); } if (b.hasRemaining()) throw new IllegalStateException("connect metadata");
                if (al == null) jm.putNull("allocationHex"); else jm.put("allocationHex", hex(al));
            }
            plain("ConnectAssignment", v, "connect", i, as, ja); plain("ConnectMetadata", v, "connect", i, md, jm);
        }
    }
    static ObjectNode ca(int v, short e, String l, String u, long o) { return F.objectNode().put("version", v).put("error", e).put("leader", l).put("leaderUrl", u).put("configOffset", o); }
    static String gs(ByteBuffer b) { byte[] s = new byte[b.getShort()]; b.get(s); return new String(s, StandardCharsets.UTF_8); }
    static JsonNode connectStruct(ByteBuffer b, int v, boolean ext, boolean x) {      // faithful wire view: [connector, [task ids]] with task -1 = the connector itself
        b.getShort(); b.getShort(); gs(b); gs(b); b.getLong(); ObjectNode o = F.objectNode();
        for (String nm : ext ? new String[]{"assignment", "revoked"} : new String[]{"assignment"}) { int n = b.getInt(); if (n < 0) { o.putNull(nm); continue; } ArrayNode a = o.putArray(nm); for (int i = 0; i < n; i++) { ObjectNode q = a.addObject().put("connector", gs(b)); ArrayNode t = q.putArray("tasks"); int k = b.getInt(); for (int j = 0; j < k; j++) t.add(b.getInt()); } }
        if (ext) b.getInt(); if (b.hasRemaining()) throw new IllegalStateException("connect assignment"); return o;
    }
    static ArrayNode tps(Collection<TopicPartition> l) { ArrayNode a = F.arrayNode(); for (TopicPartition t : l) a.addObject().put("topic", t.topic()).put("partition", t.partition()); return a; }
    static void streams(long seed, int n) throws Exception {
        for (int v = 1; v <= 11; v++) for (int i = 0; i < n + 1; i++) {
            Gen g = new Gen(rnd(seed, label + "streams" + v + i), null, 0, "random");
            List<org.apache.kafka.streams.processor.TaskId> act = new ArrayList<>(); LinkedHashMap<org.apache.kafka.streams.processor.TaskId, Set<TopicPartition>> sb = new LinkedHashMap<>(); LinkedHashMap<org.apache.kafka.streams.state.HostInfo, Set<TopicPartition>> ph = new LinkedHashMap<>(), sh = new LinkedHashMap<>();
            int k = g.r.nextInt(4); for (int q = 0; q < k; q++) act.add(task(g, v)); k = g.r.nextInt(3); for (int q = 0; q < k; q++) sb.put(task(g, v), tp(g));
            k = v < 2 ? 0 : g.r.nextInt(3); for (int q = 0; q < k; q++) ph.put(new org.apache.kafka.streams.state.HostInfo("host" + q + (g.p(.3) ? "\u00e9" : ""), g.r.nextInt(65536)), tp(g));
            k = v < 6 ? 0 : g.r.nextInt(3); for (int q = 0; q < k; q++) sh.put(new org.apache.kafka.streams.state.HostInfo("sb" + q, g.r.nextInt(65536)), tp(g));
            int err = v < 4 ? 0 : g.r.nextInt(5);
            var ai = new org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo(v, v < 3 ? -1 : 11, act, sb, ph, sh, err); long next = v >= 7 ? g.integer(0, Long.MAX_VALUE) : Long.MAX_VALUE; if (v >= 7) ai.setNextRebalanceTime(next);
            byte[] w = arr(ai.encode()); var x = org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo.decode(ByteBuffer.wrap(w));
            if (!x.activeTasks().equals(act) || !x.standbyTasks().equals(sb) || !x.partitionsByHost().equals(ph) || !x.standbyPartitionByHost().equals(sh) || x.errCode() != err || x.nextRebalanceMs() != next) throw new IllegalStateException("AssignmentInfo v" + v + "\n" + ai + "\n" + x);
            ObjectNode o = F.objectNode().put("version", v); if (v >= 3) o.put("commonlySupportedVersion", x.commonlySupportedVersion());
            ArrayNode a = o.putArray("activeTasks"); for (var t : act) a.add(tid(t, v));
            a = o.putArray("standbyTasks"); for (var e : sb.entrySet()) { ObjectNode q = a.addObject(); q.set("task", tid(e.getKey(), v)); q.set("partitions", tps(e.getValue())); }
            if (v >= 2) { a = o.putArray("partitionsByHost"); for (var e : ph.entrySet()) a.addObject().put("host", e.getKey().host()).put("port", e.getKey().port()).set("partitions", tps(e.getValue())); }
            if (v >= 6) { a = o.putArray("standbyPartitionsByHost"); for (var e : sh.entrySet()) a.addObject().put("host", e.getKey().host()).put("port", e.getKey().port()).set("partitions", tps(e.getValue())); }
            if (v >= 4) o.put("errCode", err); if (v >= 7) o.put("nextRebalanceMs", next);
            plain("StreamsAssignmentInfo", v, "streams-userdata", i, w, o);
        }
    }
    static ObjectNode tid(org.apache.kafka.streams.processor.TaskId t, int v) { ObjectNode o = F.objectNode().put("topicGroupId", t.subtopology()).put("partition", t.partition()); if (v >= 10) o.put("namedTopology", t.topologyName()); return o; }
    static org.apache.kafka.streams.processor.TaskId task(Gen g, int v) throws Exception {
        if (v >= 10 && g.p(.4)) return new org.apache.kafka.streams.processor.TaskId(g.r.nextInt(100), g.r.nextInt(1000), "topo" + g.r.nextInt(5));
        return new org.apache.kafka.streams.processor.TaskId(g.r.nextInt(100), g.r.nextInt(1000)); }
    static Set<TopicPartition> tp(Gen g) { Set<TopicPartition> s = new LinkedHashSet<>(); int n = 1 + g.r.nextInt(3); for (int i = 0; i < n; i++) s.add(new TopicPartition(g.p(.3) ? "t\u4e2d" : "topic" + g.r.nextInt(4), g.r.nextInt(100))); return s; }
}
