import java.nio.file.Files;
import java.nio.file.Path;
import java.util.StringJoiner;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/** Prints the rows of the last statement of a script; statements end with a line of `;` alone. */
public final class PageFlink {
  public static void main(String[] files) throws Exception {
    var settings = EnvironmentSettings.newInstance().inStreamingMode().build();
    TableEnvironment env = TableEnvironment.create(settings);
    env.getConfig().set("parallelism.default", "1");
    env.getConfig().set("table.local-time-zone", "UTC");
    String[] statements = Files.readString(Path.of(files[0])).split("\n;\n");
    for (int i = 0; i < statements.length - 1; i++) env.executeSql(statements[i]);
    var answer = env.executeSql(statements[statements.length - 1]);
    var names = answer.getResolvedSchema().getColumnNames();
    try (CloseableIterator<Row> rows = answer.collect()) {
      while (rows.hasNext()) {
        Row row = rows.next();
        StringJoiner line = new StringJoiner("\t");
        for (String name : names) line.add(name + "=" + row.getField(name));
        System.out.println(line);
      }
    }
  }
}
