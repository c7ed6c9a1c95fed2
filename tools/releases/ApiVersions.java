import java.lang.reflect.Method;

import org.apache.kafka.common.protocol.ApiKeys;

/** Prints the APIs that the kafka-clients on the class path knows: key, first and last version, first unstable one. */
public class ApiVersions {
    public static void main(String[] arguments) throws Exception {
        for (ApiKeys api : ApiKeys.values()) {
            int key = ((Number) ApiKeys.class.getField("id").get(api)).intValue();
            int first = number(api, "oldestVersion"), last = number(api, "latestVersion");
            if (first < 0) { // up to 0.10: Protocol has the schema of each version, null for those that are not known
                Object[] schemas = ((Object[][]) Class.forName("org.apache.kafka.common.protocol.Protocol")
                        .getField("REQUESTS").get(null))[key];
                last = schemas == null ? -1 : schemas.length - 1;
                for (first = 0; first <= last && schemas[first] == null; first++) { }
            }
            int stable = last;
            try {
                Method latest = ApiKeys.class.getMethod("latestVersion", boolean.class);
                last = ((Number) latest.invoke(api, true)).intValue();
                stable = ((Number) latest.invoke(api, false)).intValue();
            } catch (NoSuchMethodException before35) {
            }
            if (first <= last)
                System.out.println(key + "\t" + first + "\t" + last + "\t" + (stable < last ? stable + 1 : ""));
        }
    }

    private static int number(ApiKeys api, String method) throws Exception {
        try {
            return ((Number) ApiKeys.class.getMethod(method).invoke(api)).intValue();
        } catch (NoSuchMethodException none) {
            return -1;
        }
    }
}
