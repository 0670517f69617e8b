import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.StringJoiner;

/**
 * Prints the rows of a statement over a few events. The first file is a module of EPL, whose last
 * statement gives rows; the second has a line for each event: milliseconds, type and values, with
 * tabs between them.
 */
public final class PageEsper {
  static final long LATE_MS = 86_400_000;

  public static void main(String[] files) throws Exception {
    Configuration configuration = new Configuration();
    configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
    var arguments = new CompilerArguments(configuration);
    var module = Files.readString(Path.of(files[0]));
    var compiled = EPCompilerProvider.getCompiler().compile(module, arguments);
    var runtime = EPRuntimeProvider.getRuntime("page", configuration);
    runtime.initialize();
    var service = runtime.getEventService();
    service.advanceTime(0);
    EPStatement[] every = runtime.getDeploymentService().deploy(compiled).getStatements();
    EPStatement last = every[every.length - 1];
    String[] names = last.getEventType().getPropertyNames();
    last.addListener(
        (found, old, statement, engine) -> {
          for (EventBean row : found == null ? new EventBean[0] : found) {
            StringJoiner line = new StringJoiner("\t");
            for (String name : names) line.add(name + "=" + row.get(name));
            System.out.println(line);
          }
        });
    long now = 0;
    for (String line : Files.readAllLines(Path.of(files[1]))) {
      String[] parts = line.split("\t");
      now = Long.parseLong(parts[0]);
      service.advanceTimeSpan(now);  // Each timer at its time, not all of them at the last.
      var type = runtime.getEventTypeService().getBusEventType(parts[1]);
      Object[] values = new Object[parts.length - 2];
      String[] columns = type.getPropertyNames();
      for (int i = 0; i < values.length; i++) {
        values[i] = value(parts[i + 2], type.getPropertyType(columns[i]));
      }
      service.sendEventObjectArray(values, parts[1]);
    }
    service.advanceTimeSpan(now + LATE_MS);
    runtime.destroy();
  }

  static Object value(String text, Class<?> kind) {
    if (kind == Double.class) return Double.valueOf(text);
    return kind == Long.class ? (Object) Long.valueOf(text) : text;
  }
}
