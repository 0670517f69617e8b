import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/** Counts the matches of RCEP's queries with Flink CEP: java FlinkMatches QUERY WITHIN_MS FILE. */
public class FlinkMatches {
  static final AtomicLong MATCHES = new AtomicLong();

  public static class Tick {
    public long ts;
    public long key;
    public double price;
  }

  static class Last {
    /** The price of the first or last event of a stage in the partial match; NaN if it has none. */
    static double price(IterativeCondition.Context<Tick> match, String stage, boolean first)
        throws Exception {
      Iterator<Tick> events = match.getEventsForPattern(stage).iterator();
      double price = Double.NaN;
      while (events.hasNext()) {
        price = events.next().price;
        if (first) break;
      }
      return price;
    }
  }

  static class Rises extends IterativeCondition<Tick> {
    @Override
    public boolean filter(Tick b, Context<Tick> match) throws Exception {
      double last = Last.price(match, "b", false);
      return b.price > (Double.isNaN(last) ? Last.price(match, "a", false) : last);
    }
  }

  static class BelowFirst extends IterativeCondition<Tick> {
    @Override
    public boolean filter(Tick c, Context<Tick> match) throws Exception {
      return c.price < Last.price(match, "b", true);
    }
  }

  static class Small extends IterativeCondition<Tick> {
    @Override
    public boolean filter(Tick a, Context<Tick> match) {
      return a.price < 20;
    }
  }

  static class Big extends IterativeCondition<Tick> {
    @Override
    public boolean filter(Tick b, Context<Tick> match) throws Exception {
      if (b.price <= 100) return false;
      double last = Last.price(match, "b", false);
      return !Double.isNaN(last) || 5 * Last.price(match, "a", false) < b.price;
    }
  }

  static class Count extends PatternProcessFunction<Tick, Integer> {
    @Override
    public void processMatch(Map<String, List<Tick>> match, Context ctx, Collector<Integer> out) {
      MATCHES.incrementAndGet();
    }
  }

  static Pattern<Tick, ?> pattern(String query) {
    if (query.equals("v-shape")) {
      return Pattern.<Tick>begin("a")
          .followedByAny("b").where(new Rises()).oneOrMore().allowCombinations()
          .followedByAny("c").where(new BelowFirst());
    }
    return Pattern.<Tick>begin("a").where(new Small())
        .followedByAny("b").where(new Big()).oneOrMore().allowCombinations();
  }

  /** Returns the peak memory of this process; what the system tells its parent may be the parent's. */
  static double peakMb() throws Exception {
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith("VmHWM:")) return Long.parseLong(line.replaceAll("\\D", "")) / 1024.0;
    }
    return 0;
  }

  public static void main(String[] arguments) throws Exception {
    List<Tick> ticks = new ArrayList<>();
    for (String line : Files.readAllLines(Path.of(arguments[2]))) {
      String[] cells = line.split(",");
      Tick tick = new Tick();
      tick.ts = Long.parseLong(cells[0]);
      tick.key = Long.parseLong(cells[1]);
      tick.price = Double.parseDouble(cells[2]);
      ticks.add(tick);
    }
    var env = StreamExecutionEnvironment.createLocalEnvironment(2, new Configuration());
    env.getConfig().enableObjectReuse();
    var times = WatermarkStrategy.<Tick>forMonotonousTimestamps()
        .withTimestampAssigner((tick, before) -> tick.ts);
    var keyed = env.fromData(ticks).assignTimestampsAndWatermarks(times).keyBy(tick -> tick.key);
    Pattern<Tick, ?> asked = pattern(arguments[0]);
    Pattern<Tick, ?> within = asked.within(Duration.ofMillis(Long.parseLong(arguments[1])));
    @SuppressWarnings("unchecked")
    Pattern<Tick, Tick> typed = (Pattern<Tick, Tick>) within;
    CEP.pattern(keyed, typed).process(new Count()).sinkTo(new DiscardingSink<>());
    long began = System.nanoTime();
    env.execute();
    double seconds = (System.nanoTime() - began) / 1e9;
    String facts = "\"matches\": " + MATCHES.get() + ", \"seconds\": " + seconds;
    System.out.println("{" + facts + ", \"peak_mb\": " + peakMb() + "}");
  }
}
