import java.nio.file.Path;
import java.time.Duration;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.reader.TextLineInputFormat;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/** Answers a case with Flink CEP; the pattern of each case is here. */
public final class FlinkCep {
  static final long WITHIN_MS = 10_000;
  static Runs.Answer answer;

  static final class Is extends SimpleCondition<Runs.Event> {
    private final String type;

    Is(String type) {
      this.type = type;
    }

    @Override
    public boolean filter(Runs.Event event) {
      return type.equals(event.type);
    }
  }

  /** Compares a price with that of the event before it in a match. */
  static final class Compared extends IterativeCondition<Runs.Event> {
    private final String loop;
    private final String before;
    private final boolean falls;

    Compared(String loop, String before, boolean falls) {
      this.loop = loop;
      this.before = before;
      this.falls = falls;
    }

    @Override
    public boolean filter(Runs.Event event, Context<Runs.Event> match) throws Exception {
      Runs.Event last = last(match, loop);
      if (last == null && before != null) last = last(match, before);
      return last == null || (falls ? event.price < last.price : event.price >= last.price);
    }

    private static Runs.Event last(Context<Runs.Event> match, String stage) throws Exception {
      Runs.Event last = null;
      Iterator<Runs.Event> events = match.getEventsForPattern(stage).iterator();
      while (events.hasNext()) last = events.next();
      return last;
    }
  }

  /** Adds each match to the answer. */
  static final class Take extends PatternProcessFunction<Runs.Event, Integer> {
    private final String name;

    Take(String name) {
      this.name = name;
    }

    @Override
    public void processMatch(
        Map<String, List<Runs.Event>> match, Context context, Collector<Integer> out) {
      Runs.Event first = match.values().iterator().next().get(0);
      switch (name) {
        case "plus", "seq" -> answer.match(first.key, first.ts / WITHIN_MS);
        case "within", "next" -> answer.row(first.host, first.ts, match.get("c").get(0).ts);
        case "runs" -> {
          List<Runs.Event> d = match.get("d");
          long end = d.get(d.size() - 1).price;
          answer.row(first.key, first.ts, first.price, end);
        }
        case "trends" -> {
          double sum = 0;
          for (Runs.Event event : match.get("s")) sum += event.price;
          answer.match(first.key, first.ts / WITHIN_MS, match.get("s").size(), sum);
        }
        case "absence" -> answer.row(first.key, first.ts);
        default -> answer.step(match.size(), first.key);
      }
    }
  }

  static Pattern<Runs.Event, ?> any(String... types) {
    Pattern<Runs.Event, ?> pattern = Pattern.<Runs.Event>begin("a").where(new Is(types[0]));
    for (int i = 1; i < types.length; i++) {
      String name = String.valueOf((char) ('a' + i));
      pattern = pattern.followedByAny(name).where(cast(new Is(types[i])));
    }
    return pattern;
  }

  static Pattern<Runs.Event, ?> next(String... types) {
    Pattern<Runs.Event, ?> pattern = Pattern.<Runs.Event>begin("a").where(new Is(types[0]));
    for (int i = 1; i < types.length; i++) {
      String name = String.valueOf((char) ('a' + i));
      pattern = pattern.followedBy(name).where(cast(new Is(types[i])));
    }
    return pattern;
  }

  @SuppressWarnings("unchecked")
  static <T> T cast(Object value) {
    return (T) value;
  }

  static List<Pattern<Runs.Event, ?>> patterns(String name) {
    Duration within = Duration.ofMillis(WITHIN_MS), second = Duration.ofSeconds(1);
    // Both ends of a funnel's time belong to it; the end of a window does not.
    Duration funnel = Duration.ofMillis(300_001);
    return switch (name) {
      case "plus" -> List.of(
          Pattern.<Runs.Event>begin("a").where(new Is("A")).oneOrMore().allowCombinations()
              .followedByAny("b").where(new Is("B")).within(within));
      case "seq" -> List.of(any("A", "B", "C").within(within));
      case "within" -> List.of(any("A", "B", "C").within(second));
      case "next" -> List.of(next("A", "B", "C").within(second));
      case "runs" -> List.of(
          Pattern.<Runs.Event>begin("s", AfterMatchSkipStrategy.skipToLast("d"))
              .next("d").where(new Compared("d", "s", true)).oneOrMore().consecutive()
              .next("u").where(new Compared("d", null, false)));
      case "trends" -> List.of(
          Pattern.<Runs.Event>begin("s").where(new Compared("s", null, true)).oneOrMore()
              .allowCombinations().within(within));
      case "funnel" -> List.of(
          next("view"),
          next("view", "cart").within(funnel),
          next("view", "cart", "order").within(funnel));
      case "absence" -> List.of(
          Pattern.<Runs.Event>begin("o").where(new Is("order"))
              .notFollowedBy("p").where(new Is("payment")).within(Duration.ofMinutes(1)));
      default -> throw new IllegalArgumentException(name);
    };
  }

  static KeySelector<Runs.Event, Long> key(String name) {
    return switch (name) {
      // Windows that do not overlap are a part of the key.
      case "plus", "seq", "trends" -> event -> event.ts / WITHIN_MS * 1_000_000 + event.key;
      case "within", "next" -> event -> event.host;
      default -> event -> event.key;
    };
  }

  static double[] answer(String name, Path file) throws Exception {
    answer = new Runs.Answer();
    var env = StreamExecutionEnvironment.createLocalEnvironment(2, new Configuration());
    env.getConfig().enableObjectReuse();
    var lines = FileSource.forRecordStreamFormat(
        new TextLineInputFormat(), new org.apache.flink.core.fs.Path(file.toUri())).build();
    var times = WatermarkStrategy.<Runs.Event>forMonotonousTimestamps()
        .withTimestampAssigner((event, before) -> event.ts);
    // One task reads the file, in the order of time.
    DataStream<Runs.Event> events =
        env.fromSource(lines, WatermarkStrategy.noWatermarks(), "events").setParallelism(1)
            .map(Runs.Event::parse).returns(Runs.Event.class).setParallelism(1)
            .assignTimestampsAndWatermarks(times).setParallelism(1);
    var keyed = events.keyBy(key(name));
    for (Pattern<Runs.Event, ?> pattern : patterns(name)) {
      Pattern<Runs.Event, Runs.Event> typed = cast(pattern);
      CEP.pattern(keyed, typed).process(new Take(name)).sinkTo(new DiscardingSink<>());
    }
    env.execute();
    return answer.check();
  }

  public static void main(String[] arguments) throws Exception {
    Runs.measure(arguments, FlinkCep::answer);
  }
}
