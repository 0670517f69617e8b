import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import java.nio.file.Path;

/**
 * Answers a case with Siddhi. The streams Rows, Matches and Steps hold rows of the answer, matches of
 * a key and window, and keys that reach a step; a text names those that it fills.
 */
public final class SiddhiPeer {
  static final String EVENTS =
      "@app:playback define stream E"
          + " (ts long, type string, key long, host long, price long, win long);\n";
  static final long WITHIN_MS = 10_000, LATE_MS = 3_600_000;

  public static void main(String[] arguments) throws Exception {
    Runs.measure(arguments, SiddhiPeer::answer);
  }

  interface Take {
    void row(Object[] data);
  }

  static void listen(SiddhiAppRuntime app, String text, String stream, Take take) {
    if (!text.contains("insert into " + stream)) return;
    app.addCallback(
        stream,
        new StreamCallback() {
          @Override
          public void receive(Event[] found) {
            for (Event event : found) take.row(event.getData());
          }
        });
  }

  static double[] answer(String text, Path file) throws Exception {
    SiddhiManager manager = new SiddhiManager();
    SiddhiAppRuntime app = manager.createSiddhiAppRuntime(EVENTS + text);
    Runs.Answer answer = new Runs.Answer();
    listen(app, text, "Rows", data -> answer.row(numbers(data)));
    listen(app, text, "Matches", data -> answer.match((Long) data[0], (Long) data[1]));
    listen(app, text, "Steps", data -> answer.step(((Number) data[0]).longValue(), (Long) data[1]));
    app.start();
    InputHandler input = app.getInputHandler("E");
    long[] last = new long[1];
    Runs.read(
        file,
        e -> {
          last[0] = e.ts;
          send(input, e.ts, e.ts, e.type, e.key, e.host, e.price, e.ts / WITHIN_MS);
        });
    long late = last[0] + LATE_MS;
    send(input, late, late, "end", -1L, -1L, 0L, late / WITHIN_MS);
    app.shutdown();
    manager.shutdown();
    return answer.check();
  }

  static void send(InputHandler input, long ts, Object... values) {
    try {
      input.send(ts, values);
    } catch (InterruptedException stopped) {
      throw new IllegalStateException(stopped);
    }
  }

  static double[] numbers(Object[] data) {
    double[] values = new double[data.length];
    for (int i = 0; i < data.length; i++) values[i] = ((Number) data[i]).doubleValue();
    return values;
  }
}
