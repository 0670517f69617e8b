import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.DoubleAdder;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/**
 * What the programs of all systems share: they read a CSV file, answer, and print a line of JSON for
 * each run, as child.py does. Arguments: CASE LIMIT_S ROUNDS FILE,FILE... TEXT...
 */
public final class Runs {
  /** A file of ten times the events may take so many times as long: starting a job costs the rest. */
  static final int GROWTH = 4;

  /** Answers a case from a file; returns the number of rows and the sum of each column. */
  interface Query {
    double[] answer(String text, Path file) throws Exception;
  }

  /** An event; a public class with public fields is a POJO for Flink. */
  public static class Event {
    public long ts;
    public String type;
    public long key;
    public long host;
    public long price;

    static Event parse(String line) {
      Event event = new Event();
      int a = line.indexOf(','), b = line.indexOf(',', a + 1);
      int c = line.indexOf(',', b + 1), d = line.indexOf(',', c + 1);
      event.ts = Long.parseLong(line, 0, a, 10);
      event.type = line.substring(a + 1, b).intern();
      event.key = Long.parseLong(line, b + 1, c, 10);
      event.host = Long.parseLong(line, c + 1, d, 10);
      event.price = Long.parseLong(line, d + 1, line.length(), 10);
      return event;
    }
  }

  /** Gathers rows of matches; aggregates of groups are made of them. */
  static final class Answer {
    private final LongAdder rows = new LongAdder();
    private final DoubleAdder[] sums = new DoubleAdder[4];
    private final ConcurrentHashMap<List<Long>, double[]> groups = new ConcurrentHashMap<>();
    private final ConcurrentHashMap<Long, Set<Long>> steps = new ConcurrentHashMap<>();
    private int columns;

    Answer() {
      Arrays.setAll(sums, i -> new DoubleAdder());
    }

    /** Adds a row of an answer. */
    void row(double... values) {
      columns = values.length;
      rows.increment();
      for (int i = 0; i < values.length; i++) sums[i].add(values[i]);
    }

    /** Counts a match of a key in a window. */
    void match(long key, long window) {
      match(key, window, 0, 0);
    }

    /** Counts a match of some events, whose sum counts for an average. */
    void match(long key, long window, double events, double sum) {
      double[] group = groups.computeIfAbsent(List.of(key, window), k -> new double[3]);
      synchronized (group) {
        group[0]++;
        group[1] += events;
        group[2] += sum;
      }
    }

    /** Notes that a key reaches a step. */
    void step(long step, long key) {
      steps.computeIfAbsent(step, s -> ConcurrentHashMap.newKeySet()).add(key);
    }

    double[] check() {
      steps.forEach((step, keys) -> row(step, keys.size()));
      groups.forEach(
          (group, found) -> {
            if (found[1] == 0) row(group.get(0), found[0]);
            else row(group.get(0), found[0], found[2] / found[1]);
          });
      double[] check = new double[columns + 1];
      check[0] = rows.sum();
      for (int i = 0; i < columns; i++) check[i + 1] = sums[i].sum();
      return check;
    }
  }

  static void read(Path file, Consumer<Event> take) throws Exception {
    try (BufferedReader lines = Files.newBufferedReader(file)) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        take.accept(Event.parse(line));
      }
    }
  }

  /** Measures, and ends the process whatever threads an engine has left behind. */
  static void measure(String[] arguments, Query query) {
    int status = 0;
    try {
      measureAll(arguments, query);
    } catch (Exception | Error problem) {
      problem.printStackTrace();
      status = 1;
    }
    System.out.flush();
    System.exit(status);
  }

  private static void measureAll(String[] arguments, Query query) throws Exception {
    double limit = Double.parseDouble(arguments[1]);
    int rounds = Integer.parseInt(arguments[2]);
    String[] files = arguments[3].split(",");
    String[] texts = Arrays.copyOfRange(arguments, 4, arguments.length);
    int fastest = 0;
    double[] best = {Double.MAX_VALUE, Double.MAX_VALUE};
    for (int variant = 0; variant < texts.length; variant++) {
      // The first run loads and compiles.
      run(query, texts[variant], variant, Path.of(files[0]));
      double[] found = run(query, texts[variant], variant, Path.of(files[0]));
      if (found[0] < best[0]) {
        best = found;
        fastest = variant;
      }
    }
    int size = 0;
    double cpu = best[1];
    while (size + 1 < files.length && cpu <= limit / GROWTH) {
      cpu = run(query, texts[fastest], fastest, Path.of(files[++size]))[1];
    }
    double spent = cpu;
    for (int i = 1; i < rounds && spent + cpu <= limit; i++) {
      spent += run(query, texts[fastest], fastest, Path.of(files[size]))[1];
    }
  }

  /** Returns the seconds of a run and its CPU seconds. */
  private static double[] run(Query query, String text, int variant, Path file) throws Exception {
    var system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    long wall = System.nanoTime(), cpu = system.getProcessCpuTime();
    double[] check = query.answer(text, file);
    double seconds = (System.nanoTime() - wall) / 1e9;
    double spent = (system.getProcessCpuTime() - cpu) / 1e9;
    String sums = Arrays.stream(check).mapToObj(Double::toString).collect(Collectors.joining(", "));
    System.out.printf(
        java.util.Locale.ROOT,
        "{\"file\": \"%s\", \"variant\": %d, \"wall\": %.6f, \"cpu\": %.6f, \"check\": [%s]}%n",
        file, variant, seconds, spent, sums);
    return new double[] {seconds, spent};
  }
}
