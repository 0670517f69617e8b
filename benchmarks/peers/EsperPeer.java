import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import java.nio.file.Path;

/**
 * Answers a case with Esper. A statement that is called rows, matches or steps, with a number or
 * without, gives rows of the answer, matches of a key and window, or keys that reach a step.
 */
public final class EsperPeer {
  static final String EVENTS =
      "@public @buseventtype create objectarray schema E"
          + " (ts long, type string, key long, host long, price long, win long);\n";
  static final long WITHIN_MS = 10_000, LATE_MS = 3_600_000;

  public static void main(String[] arguments) throws Exception {
    Runs.measure(arguments, EsperPeer::answer);
  }

  static double[] answer(String text, Path file) throws Exception {
    Configuration configuration = new Configuration();
    configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
    // Matches of many keys at a time are no mistake here.
    configuration.getRuntime().getPatterns().setMaxSubexpressions(null);
    configuration.getRuntime().getMatchRecognize().setMaxStates(null);
    var compiled =
        EPCompilerProvider.getCompiler().compile(EVENTS + text, new CompilerArguments(configuration));
    EPRuntime runtime = EPRuntimeProvider.getRuntime("peer", configuration);
    runtime.initialize();
    Runs.Answer answer = new Runs.Answer();
    for (EPStatement statement : runtime.getDeploymentService().deploy(compiled).getStatements()) {
      String[] names = statement.getEventType().getPropertyNames();
      switch (statement.getName().replaceAll("[0-9]", "")) {
        case "rows" -> statement.addListener(
            (found, old, s, r) -> {
              for (EventBean row : found) answer.row(numbers(row, names));
            });
        case "matches" -> statement.addListener(
            (found, old, s, r) -> {
              for (EventBean row : found) answer.match((Long) row.get("key"), (Long) row.get("win"));
            });
        case "steps" -> statement.addListener(
            (found, old, s, r) -> {
              for (EventBean row : found) {
                answer.step(((Number) row.get("step")).longValue(), (Long) row.get("key"));
              }
            });
        default -> {}
      }
    }
    var service = runtime.getEventService();
    service.advanceTime(0);
    var sender = service.getEventSender("E");
    long[] last = new long[1];
    Runs.read(
        file,
        e -> {
          service.advanceTime(e.ts);
          last[0] = e.ts;
          sender.sendEvent(
              new Object[] {e.ts, e.type, e.key, e.host, e.price, e.ts / WITHIN_MS});
        });
    service.advanceTime(last[0] + LATE_MS);
    sender.sendEvent(new Object[] {last[0] + LATE_MS, "end", -1L, -1L, 0L, -1L});
    runtime.destroy();
    return answer.check();
  }

  static double[] numbers(EventBean row, String[] names) {
    double[] values = new double[names.length];
    for (int i = 0; i < names.length; i++) values[i] = ((Number) row.get(names[i])).doubleValue();
    return values;
  }
}
