import java.nio.file.Path;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/** Answers a case with Flink SQL; a text that begins with STREAMING runs in that mode. */
public final class FlinkSql {
  static final String STREAMING = "STREAMING ";
  static final String EVENTS =
      "CREATE TEMPORARY TABLE events (ts BIGINT, type STRING, key BIGINT, host BIGINT,"
          + " price BIGINT, et AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR et AS et)"
          + " WITH ('connector' = 'filesystem', 'path' = 'file://%s', 'format' = 'csv')";

  public static void main(String[] arguments) throws Exception {
    Runs.measure(arguments, FlinkSql::answer);
  }

  static double[] answer(String text, Path file) throws Exception {
    boolean streaming = text.startsWith(STREAMING);
    var mode = EnvironmentSettings.newInstance();
    var settings = (streaming ? mode.inStreamingMode() : mode.inBatchMode()).build();
    TableEnvironment env = TableEnvironment.create(settings);
    env.getConfig().set("parallelism.default", "2");
    if (streaming) {
      // COUNT and SUM send a change for every row otherwise.
      env.getConfig().set("table.exec.mini-batch.enabled", "true");
      env.getConfig().set("table.exec.mini-batch.allow-latency", "10 s");
      env.getConfig().set("table.exec.mini-batch.size", "1000000");
      // A file is read in order by one task.
      env.getConfig().set("table.exec.resource.default-parallelism", "2");
    }
    env.executeSql(String.format(EVENTS, file.toAbsolutePath()));
    Row last = null;
    String query = streaming ? text.substring(STREAMING.length()) : text;
    try (CloseableIterator<Row> rows = env.executeSql(query).collect()) {
      while (rows.hasNext()) last = rows.next();
    }
    double[] check = new double[last.getArity()];
    for (int i = 0; i < check.length; i++) check[i] = ((Number) last.getField(i)).doubleValue();
    return check;
  }
}
