import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;

import org.apache.jmeter.report.dashboard.ReportGenerator;
import org.apache.jmeter.reporters.ResultCollector;
import org.apache.jmeter.samplers.SampleResult;
import org.apache.jmeter.save.CSVSaveService;
import org.apache.jmeter.util.JMeterUtils;
import org.apache.jmeter.visualizers.SamplingStatCalculator;
import org.apache.jmeter.visualizers.Visualizer;

/**
 * Reads a JTL with JMeter and writes the figures of its aggregate report and dashboard as JSON.
 * Arguments: JMeter's home, the JTL, a folder for the dashboard, the output file.
 */
public final class ReadJtl {
    public static void main(String[] arguments) throws Exception {
        String home = arguments[0];
        String jtl = arguments[1];
        String dashboard = arguments[2];
        JMeterUtils.setJMeterHome(home);
        JMeterUtils.loadJMeterProperties(home + "/bin/jmeter.properties");
        JMeterUtils.getJMeterProperties().putAll(JMeterUtils.loadProperties(home + "/bin/reportgenerator.properties"));
        JMeterUtils.setProperty("jmeter.reportgenerator.outputdir", dashboard);
        JMeterUtils.setProperty("jmeter.reportgenerator.temp_dir", dashboard + "-temp");
        new ReportGenerator(jtl, null).generate();
        String statistics = read(new File(dashboard, "statistics.json"));
        String figures = "{\"aggregate\":" + aggregate(jtl) + ",\"dashboard\":" + statistics + "}";
        Files.write(new File(arguments[3]).toPath(), figures.getBytes(StandardCharsets.UTF_8));
    }

    private static String aggregate(String jtl) throws Exception {
        final SamplingStatCalculator all = new SamplingStatCalculator("all");
        Visualizer into = new Visualizer() {
            @Override
            public void add(SampleResult sample) {
                all.addSample(sample);
            }

            @Override
            public boolean isStats() {
                return false;
            }
        };
        CSVSaveService.processSamples(jtl, into, new ResultCollector());
        StringBuilder text = new StringBuilder("{");
        text.append("\"samples\":").append(all.getCount());
        text.append(",\"error_percent\":").append(all.getErrorPercentage() * 100);
        text.append(",\"mean_ms\":").append(all.getMean());
        text.append(",\"sd_ms\":").append(all.getStandardDeviation());
        text.append(",\"min_ms\":").append(all.getMin());
        text.append(",\"max_ms\":").append(all.getMax());
        text.append(",\"throughput_per_s\":").append(all.getRate());
        text.append(",\"received_kb_per_s\":").append(all.getKBPerSecond());
        text.append(",\"sent_kb_per_s\":").append(all.getSentKBPerSecond());
        String[] names = {"p50_ms", "p75_ms", "p90_ms", "p95_ms", "p98_ms", "p99_ms", "p999_ms"};
        double[] points = {0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.999};
        for (int at = 0; at < names.length; at++) {
            text.append(",\"").append(names[at]).append("\":").append(all.getPercentPoint(points[at]));
        }
        return text.append("}").toString();
    }

    private static String read(File file) throws Exception {
        return new String(Files.readAllBytes(file.toPath()), StandardCharsets.UTF_8);
    }
}
