import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.functions.TimedOutPartialMatchHandler;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/** Prints the matches of a pattern of the page, or the partial matches that time out. */
public final class PageCep {
  static final OutputTag<String> LATE = new OutputTag<>("late") {};

  /** A line of the file: time, type, key and value. */
  public static final class Event {
    public long ms;
    public String type;
    public String key;
    public double value;
    public boolean ok;

    static Event parse(String line) {
      String[] parts = line.split("\t");
      Event event = new Event();
      event.ms = Long.parseLong(parts[0]);
      event.type = parts[1];
      event.key = parts[2];
      event.value = Double.parseDouble(parts[3]);
      event.ok = event.value > 0;
      return event;
    }
  }

  static final SimpleCondition<Event> isPrice = SimpleCondition.of(e -> e.type.equals("price"));
  static final SimpleCondition<Event> isOrder = SimpleCondition.of(e -> e.type.equals("order"));
  static final SimpleCondition<Event> isPayment = SimpleCondition.of(e -> e.type.equals("payment"));

  /** A price below that of the event before it in a match. */
  static final class FallingPrice extends IterativeCondition<Event> {
    @Override
    public boolean filter(Event event, Context<Event> match) throws Exception {
      Event last = null;
      for (Event one : match.getEventsForPattern("first")) last = one;
      for (Event one : match.getEventsForPattern("falls")) last = one;
      return event.type.equals("price") && event.value < last.value;
    }
  }

  /** Writes the times of the events of a match. */
  static final class Times extends PatternProcessFunction<Event, String>
      implements TimedOutPartialMatchHandler<Event> {
    @Override
    public void processMatch(Map<String, List<Event>> match, Context context, Collector<String> out) {
      out.collect(times(match));
    }

    @Override
    public void processTimedOutMatch(Map<String, List<Event>> match, Context context) {
      context.output(LATE, times(match));
    }

    private static String times(Map<String, List<Event>> match) {
      List<Long> found = new ArrayList<>();
      for (List<Event> events : match.values()) for (Event event : events) found.add(event.ms);
      StringJoiner line = new StringJoiner(" ", "times=", "");
      found.stream().sorted().forEach(ms -> line.add(String.valueOf(ms)));
      return line.toString();
    }
  }

  static Pattern<Event, Event> pattern() {
    Pattern<Event, Event> asked =
        /*PATTERN*/;
    return asked;
  }

  public static void main(String[] files) throws Exception {
    List<Event> events = new ArrayList<>();
    for (String line : Files.readAllLines(Path.of(files[0]))) events.add(Event.parse(line));
    var env = StreamExecutionEnvironment.createLocalEnvironment(1, new Configuration());
    var times = WatermarkStrategy.<Event>forMonotonousTimestamps()
        .withTimestampAssigner((event, before) -> event.ms);
    var keyed = env.fromData(Event.class, events.toArray(new Event[0]))
        .assignTimestampsAndWatermarks(times).keyBy(event -> event.key);
    var found = CEP.pattern(keyed, pattern()).process(new Times());
    var shown = files[1].equals("late") ? found.getSideOutput(LATE) : found;
    try (var rows = shown.executeAndCollect()) {
      while (rows.hasNext()) System.out.println(rows.next());
    }
  }
}
