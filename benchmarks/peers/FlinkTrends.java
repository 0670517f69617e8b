import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * Counts the trends of COGRA's figures with Flink CEP, which builds each of them. Prints the CPU
 * seconds and the trends of every file; a file that takes longer than the limit ends the process.
 * Arguments: PATTERN LIMIT_S FILE...
 */
public final class FlinkTrends {
  static final LongAdder TRENDS = new LongAdder();
  static final int STATUS_LATE = 3;

  static final class Count extends PatternProcessFunction<Runs.Event, Long> {
    @Override
    public void processMatch(
        Map<String, List<Runs.Event>> match, Context context, Collector<Long> out) {
      TRENDS.increment();
    }
  }

  static Pattern<Runs.Event, Runs.Event> type(String name) {
    return FlinkCep.cast(Pattern.<Runs.Event>begin(name).where(new FlinkCep.Is(name)));
  }

  static Pattern<Runs.Event, ?> pattern(String name) {
    var b = new FlinkCep.Is("B");
    var c = new FlinkCep.Is("C");
    return switch (name) {
      // SEQ(A, B+, C)
      case "activity any" -> type("A").followedByAny("B").where(b).oneOrMore().allowCombinations()
          .followedByAny("C").where(c);
      case "activity next" -> type("A").followedBy("B").where(b).oneOrMore()
          .followedBy("C").where(c);
      case "activity contiguous" -> type("A").next("B").where(b).oneOrMore().consecutive()
          .next("C").where(c);
      // A+
      case "stock any" -> type("A").oneOrMore().allowCombinations();
      // (SEQ(A, B))+
      case "rides next" -> Pattern.begin(type("A").followedBy("B").where(b)).oneOrMore();
      case "rides contiguous" ->
          Pattern.begin(type("A").next("B").where(b)).oneOrMore().consecutive();
      default -> throw new IllegalArgumentException(name);
    };
  }

  static void run(String name, Path file) throws Exception {
    var env = StreamExecutionEnvironment.createLocalEnvironment(1, new Configuration());
    env.getConfig().enableObjectReuse();
    var lines = FileSource.forRecordStreamFormat(
        new TextLineInputFormat(), new org.apache.flink.core.fs.Path(file.toUri())).build();
    var times = WatermarkStrategy.<Runs.Event>forMonotonousTimestamps()
        .withTimestampAssigner((event, before) -> event.ts);
    var keyed = env.fromSource(lines, WatermarkStrategy.noWatermarks(), "events")
        .map(Runs.Event::parse).returns(Runs.Event.class)
        .assignTimestampsAndWatermarks(times).keyBy(event -> event.key);
    Pattern<Runs.Event, Runs.Event> typed = FlinkCep.cast(pattern(name));
    CEP.pattern(keyed, typed).process(new Count()).sinkTo(new DiscardingSink<>());
    env.execute();
  }

  /** Ends the process when it has used more CPU seconds than it may. */
  static void watch(OperatingSystemMXBean system, long[] begun, double limit) {
    var watching = new Thread(() -> {
      while ((system.getProcessCpuTime() - begun[0]) / 1e9 < limit) {
        try {
          Thread.sleep(50);
        } catch (InterruptedException stopped) {
          return;
        }
      }
      Runtime.getRuntime().halt(STATUS_LATE);
    });
    watching.setDaemon(true);
    watching.start();
  }

  public static void main(String[] arguments) throws Exception {
    double limit = Double.parseDouble(arguments[1]);
    var system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    // The first file runs twice before it is measured: Java loads and compiles, which takes longer.
    long more = (long) (2e9 * limit);
    long[] begun = {system.getProcessCpuTime() + more};
    watch(system, begun, limit);
    List<String> files = Arrays.asList(arguments).subList(2, arguments.length);
    for (int i = 0; i < 2; i++) {
      run(arguments[0], Path.of(files.get(0)));
      begun[0] = system.getProcessCpuTime() + more;
    }
    for (String file : files) {
      TRENDS.reset();
      begun[0] = system.getProcessCpuTime();
      run(arguments[0], Path.of(file));
      System.out.printf(java.util.Locale.ROOT, "%.6f %d%n",
          (system.getProcessCpuTime() - begun[0]) / 1e9, TRENDS.sum());
      System.out.flush();
    }
    System.exit(0);
  }
}
