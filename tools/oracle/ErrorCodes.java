// The error codes of the Kafka release on the class path: code, name and whether its exception is retriable, tab-separated.
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

public class ErrorCodes {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values())
            System.out.println(error.code() + "\t" + error.name() + "\t" + (error.exception() instanceof RetriableException));
    }
}
