/* libxml2 and libxslt in `cargo xtask engines`, with the line protocol of src/main.rs.
 * Built with `cc -O2 peer.c -lexslt -lxslt -lxml2`.
 *
 * The parser has its default options, without network access; documents are not numbered for sorting node sets; results
 * are serialised with the output settings of the stylesheet. `versions` as the argument prints those of the libraries. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <libxml/parser.h>
#include <libxml/xpath.h>
#include <libxml/xpathInternals.h>
#include <libxslt/transform.h>
#include <libxslt/xsltutils.h>
#include <libexslt/exslt.h>

static char *bytes;
static int length;
static xmlXPathContextPtr context;
static xmlXPathCompExprPtr expression;
static xsltStylesheetPtr sheet;

static void fail(const char *what) {
    fprintf(stderr, "peer: %s\n", what);
    exit(1);
}

static void quiet(void *unused, const char *message, ...) {
    (void)unused;
    (void)message;
}

/* CPU time of this thread. */
static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

/* As `least_ns` of main.rs. */
static double least_ns(void (*work)(void)) {
    const double batch_ns = 500e3, all_ns = 25e6;
    const int batches_min = 5;
    double start = now_ns(), least = 1e18;
    long times = 1;
    int batches = 0;
    while (now_ns() - start < all_ns || batches < batches_min) {
        double batch = now_ns();
        for (long count = 0; count < times; count++) work();
        double took = now_ns() - batch;
        if (took < batch_ns) {
            times *= 2;
            continue;
        }
        if (took / times < least) least = took / times;
        batches++;
    }
    return least;
}

static void load(const char *file) {
    FILE *from = fopen(file, "rb");
    if (!from) fail(file);
    fseek(from, 0, SEEK_END);
    length = (int)ftell(from);
    rewind(from);
    bytes = malloc(length + 1);
    if (fread(bytes, 1, length, from) != (size_t)length) fail(file);
    fclose(from);
}

static xmlDocPtr parse(void) {
    xmlDocPtr document = xmlReadMemory(bytes, length, NULL, NULL, XML_PARSE_NONET);
    if (!document) fail("the document isn't well-formed");
    return document;
}

static void read_once(void) { xmlFreeDoc(parse()); }

static void select_once(void) { xmlXPathFreeObject(xmlXPathCompiledEval(expression, context)); }

/* Unless `printed` is NULL, sets it to the number of bytes after the XML declaration that aren't white space. */
static void transform(int *printed) {
    xmlDocPtr document = parse();
    xmlDocPtr result = xsltApplyStylesheet(sheet, document, NULL);
    xmlChar *out = NULL;
    int size = 0;
    if (!result || xsltSaveResultToString(&out, &size, result, sheet)) fail("the transformation failed");
    if (printed) {
        char *body = strncmp((char *)out, "<?xml", 5) ? NULL : strstr((char *)out, "?>");
        *printed = 0;
        for (int at = body ? body + 2 - (char *)out : 0; at < size; at++) *printed += !strchr(" \t\n\r\f", out[at]);
    }
    xmlFree(out);
    xmlFreeDoc(result);
    xmlFreeDoc(document);
}

static void transform_once(void) { transform(NULL); }

/* Nodes below `node`: elements, texts, comments and processing instructions. */
static long nodes_below(xmlNodePtr node) {
    long count = 0;
    for (xmlNodePtr child = node->children; child; child = child->next) count += 1 + nodes_below(child);
    return count;
}

static void run_read(void) {
    xmlDocPtr document = parse();
    long nodes = nodes_below((xmlNodePtr)document);
    xmlFreeDoc(document);
    printf("%.0f\t%ld\n", least_ns(read_once), nodes);
}

static void run_heap(void) {
    read_once();
    size_t before = mallinfo2().uordblks;
    xmlDocPtr document = parse();
    printf("%zu\t%d\n", mallinfo2().uordblks - before, length);
    xmlFreeDoc(document);
}

static void run_select(const char *text) {
    xmlDocPtr document = parse();
    context = xmlXPathNewContext(document);
    context->node = (xmlNodePtr)document;
    xmlXPathRegisterNs(context, BAD_CAST "soapenv", BAD_CAST "http://schemas.xmlsoap.org/soap/envelope/");
    xmlXPathRegisterNs(context, BAD_CAST "m", BAD_CAST "http://services.samples/xsd");
    xmlXPathRegisterNs(context, BAD_CAST "t", BAD_CAST "http://someuri");
    expression = xmlXPathCompile(BAD_CAST text);
    if (!expression) fail(text);
    xmlXPathObjectPtr found = xmlXPathCompiledEval(expression, context);
    if (!found) fail(text);
    double least = least_ns(select_once);
    if (found->type == XPATH_NODESET) {
        printf("%.0f\t%d nodes\n", least, found->nodesetval ? found->nodesetval->nodeNr : 0);
    } else {
        xmlChar *value = xmlXPathCastToString(found);
        printf("%.0f\t%s\n", least, (char *)value);
        xmlFree(value);
    }
    xmlXPathFreeObject(found);
    xmlXPathFreeCompExpr(expression);
    xmlXPathFreeContext(context);
    xmlFreeDoc(document);
}

static void run_transform(const char *file) {
    sheet = xsltParseStylesheetFile(BAD_CAST file);
    if (!sheet) fail(file);
    int printed;
    transform(&printed);
    printf("%.0f\t%d\n", least_ns(transform_once), printed);
    xsltFreeStylesheet(sheet);
}

int main(int count, char **words) {
    char line[4096];
    if (count > 1 && !strcmp(words[1], "versions")) {
        printf("libxml2 %s, libxslt %s\n", LIBXML_DOTTED_VERSION, LIBXSLT_DOTTED_VERSION);
        return 0;
    }
    xmlInitParser();
    exsltRegisterAll();
    xsltSetGenericErrorFunc(NULL, quiet);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        char *what = strtok(line, "\t"), *file = strtok(NULL, "\t"), *with = strtok(NULL, "\t");
        if (!what || !file) fail("a command has at least two words");
        load(file);
        if (!strcmp(what, "read")) run_read();
        else if (!strcmp(what, "heap")) run_heap();
        else if (!strcmp(what, "select") && with) run_select(with);
        else if (!strcmp(what, "transform") && with) run_transform(with);
        else fail("unknown command");
        free(bytes);
        fflush(stdout);
    }
    return 0;
}
