// Works on Catalyst's trees inside the JVM of Spark. `jvm.py` gives this text to Janino, the compiler that Spark
// ships, at run time. Janino knows neither lambdas nor the type arguments of Scala, so types are raw here.

import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.catalyst.AliasIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.CollationKey;
import org.apache.spark.sql.catalyst.expressions.CollationKey$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.PrettyAttribute;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.MaxBy;
import org.apache.spark.sql.catalyst.expressions.aggregate.MinBy;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.VariantVal;

public class Catalyst {
    private static final String TABLE = "substrait_agg.table";

    private final List nodes = new ArrayList();
    private final IdentityHashMap numbers = new IdentityHashMap();
    private final Map same = new HashMap();
    private final Map texts = new HashMap();
    private final Map tables = new HashMap();

    // --- tables and rules ----------------------------------------------------------------------------

    /** Adds a table, with its columns as a type in JSON. */
    public void addTable(String name, String columns) {
        tables.put(name.toLowerCase(Locale.ROOT), rows(name, (StructType) DataType.fromJson(columns), false));
    }

    /** Returns a parsed plan in which each table that was added is a relation without rows. */
    public LogicalPlan withTables(LogicalPlan parsed) throws Exception {
        LogicalPlan plan = (LogicalPlan) rule("org.apache.spark.sql.catalyst.analysis.CTESubstitution").apply(parsed);
        return (LogicalPlan) plan.transformDownWithSubqueries(new Tables(tables));
    }

    /** Returns the analyzed plan of a parsed plan over tables that were added. */
    public LogicalPlan analyzed(org.apache.spark.sql.classic.SparkSession session, LogicalPlan parsed) throws Exception {
        return session.sessionState().executePlan(
            withTables(parsed), org.apache.spark.sql.execution.CommandExecutionMode$.MODULE$.SKIP()).analyzed();
    }

    public static class Tables extends scala.runtime.AbstractPartialFunction {
        private final Map tables;

        public Tables(Map tables) {
            this.tables = tables;
        }

        public boolean isDefinedAt(Object node) {
            return nameOf(node) != null;
        }

        public Object apply(Object node) {
            String name = nameOf(node);
            TreeNode made = table(name, (LocalRelation) tables.get(name.toLowerCase(Locale.ROOT)));
            made.copyTagsFrom((TreeNode) node);
            return made;
        }

        public Object applyOrElse(Object node, scala.Function1 other) {
            return isDefinedAt(node) ? apply(node) : other.apply(node);
        }

        private String nameOf(Object node) {
            if (!(node instanceof org.apache.spark.sql.catalyst.analysis.UnresolvedRelation)) return null;
            String name = ((org.apache.spark.sql.catalyst.analysis.UnresolvedRelation) node)
                .multipartIdentifier().mkString(".");
            return tables.containsKey(name.toLowerCase(Locale.ROOT)) ? name : null;
        }
    }

    /** Returns the columns that a parsed CREATE statement of a table declares, as JSON; null for another statement. */
    public String declared(LogicalPlan parsed) {
        scala.collection.Seq columns;
        if (parsed instanceof org.apache.spark.sql.catalyst.plans.logical.CreateTable)
            columns = ((org.apache.spark.sql.catalyst.plans.logical.CreateTable) parsed).columns();
        else if (parsed instanceof org.apache.spark.sql.catalyst.plans.logical.CreateStreamingTable)
            columns = ((org.apache.spark.sql.catalyst.plans.logical.CreateStreamingTable) parsed).columns();
        else if (parsed instanceof org.apache.spark.sql.catalyst.plans.logical.CreateStreamingTableAutoCdc)
            columns = ((org.apache.spark.sql.catalyst.plans.logical.CreateStreamingTableAutoCdc) parsed).columns();
        else return null;
        StructType all = new StructType();
        for (int i = 0; i < columns.size(); i++) {
            org.apache.spark.sql.catalyst.plans.logical.ColumnDefinition column =
                (org.apache.spark.sql.catalyst.plans.logical.ColumnDefinition) columns.apply(i);
            all = all.add(column.name(), org.apache.spark.sql.catalyst.util.CharVarcharUtils
                .replaceCharVarcharWithString(column.dataType()), column.nullable());
        }
        return all.json();
    }

    /**
     * Makes a table a temporary view without rows, with its columns as a type in JSON. It is a stream, so it can be
     * read as a table and as a stream, and Spark refuses to compute what reads it.
     */
    public void placeView(org.apache.spark.sql.classic.SparkSession session, String name, String columns) {
        LogicalPlan view = rows(name, (StructType) DataType.fromJson(columns), true);
        org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(session, view)
            .createOrReplaceTempView("`" + name.replace("`", "``") + "`");
    }

    private static LogicalPlan table(String name, LocalRelation rows) {
        String[] parts = name.split("\\.");
        List qualifier = new ArrayList();
        for (int i = 0; i + 1 < parts.length; i++) qualifier.add(parts[i]);
        return new SubqueryAlias(
            new AliasIdentifier(parts[parts.length - 1], seq(qualifier)), rows.newInstance());
    }

    private static LocalRelation rows(String name, StructType schema, boolean streaming) {
        Metadata metadata = Metadata.fromJson("{\"" + TABLE + "\":" + quoted(name) + "}");
        StructField[] fields = schema.fields();
        List columns = new ArrayList();
        for (int i = 0; i < fields.length; i++) {
            columns.add(new AttributeReference(fields[i].name(), fields[i].dataType(), fields[i].nullable(),
                metadata, NamedExpression$.MODULE$.newExprId(), seq(new ArrayList())));
        }
        return new LocalRelation(seq(columns), seq(new ArrayList()), streaming, scala.Option$.MODULE$.empty());
    }

    /** Returns an analyzed plan after rules of Spark, given by the names of their classes with spaces between. */
    public LogicalPlan normalized(LogicalPlan plan, String rules) throws Exception {
        plan = (LogicalPlan) plan.transformUpWithSubqueries(new UnknownRows());
        plan = (LogicalPlan) plan.transformAllExpressionsWithSubqueries(new ClockValues());
        plan = (LogicalPlan) plan.transformAllExpressionsWithSubqueries(new Counts());
        String[] names = rules.split(" ");
        for (int i = 0; i < names.length; i++) {
            String name = names[i];
            if (name.endsWith(".PullupCorrelatedPredicates"))
                plan = (LogicalPlan) plan.transformAllExpressionsWithSubqueries(new OuterQueries());
            // A common table expression may be read in a subquery, so it is inlined in the plan as a whole.
            plan = name.endsWith(".InlineCTE") ? (LogicalPlan) rule(name).apply(plan) : everywhere(rule(name), plan);
        }
        return (LogicalPlan) plan.transformUpWithSubqueries(new Collations());
    }

    /** Computes keys with a subquery in a projection below their aggregate. Other keys stay in the aggregate. */
    public static class GroupingQueries extends Rule {
        public TreeNode apply(TreeNode plan) {
            return ((LogicalPlan) plan).transformUp(new GroupingQuery());
        }
    }

    public static class GroupingQuery extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            if (!(node instanceof Aggregate)) return false;
            scala.collection.Seq keys = ((Aggregate) node).groupingExpressions();
            for (int i = 0; i < keys.size(); i++) {
                if (org.apache.spark.sql.catalyst.expressions.SubqueryExpression$.MODULE$.hasCorrelatedSubquery(
                    (Expression) keys.apply(i))) return true;
            }
            return false;
        }

        public Object applyOrElse(Object node, scala.Function1 other) {
            return isDefinedAt(node) ? org.apache.spark.sql.catalyst.optimizer.PullOutGroupingExpressions$.MODULE$.apply(
                (LogicalPlan) node) : other.apply(node);
        }
    }

    /** Moves filters to the inputs of joins below them, as far as Spark moves them. */
    public static class JoinFilters extends Rule {
        public TreeNode apply(TreeNode plan) {
            TreeNode before;
            do {
                before = plan;
                plan = ((LogicalPlan) before).transformDown(new FiltersOfJoins());
                plan = org.apache.spark.sql.catalyst.optimizer.PushPredicateThroughJoin$.MODULE$.apply((LogicalPlan) plan);
            } while (!plan.fastEquals(before));
            return plan;
        }
    }

    /** Moves a filter below a projection or a name over a join. */
    public static class FiltersOfJoins extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            if (!Limits.isFilter(node)) return false;
            LogicalPlan below = Limits.child((LogicalPlan) node);
            if (!Limits.isPassed(below)) return false;
            while (Limits.isPassed(below)) below = Limits.child(below);
            return below instanceof org.apache.spark.sql.catalyst.plans.logical.Join;
        }

        public Object applyOrElse(Object node, scala.Function1 other) {
            if (!isDefinedAt(node)) return other.apply(node);
            LogicalPlan filter = (LogicalPlan) node, below = Limits.child(filter);
            if (below instanceof SubqueryAlias) return Limits.over(below, Limits.over(filter, Limits.child(below)));
            return org.apache.spark.sql.catalyst.optimizer.PushPredicateThroughNonJoin$.MODULE$.applyLocally()
                .applyOrElse(filter, other);
        }
    }

    /** Replaces relations without rows, which stand for tables: rules would compute their queries away. */
    public static class UnknownRows extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return node instanceof LocalRelation && ((LocalRelation) node).data().isEmpty();
        }

        public Object apply(Object node) {
            return new LogicalRelation(new NoRows((LocalRelation) node), ((LocalRelation) node).output(), scala.Option$.MODULE$.empty(),
                false, scala.Option$.MODULE$.empty());
        }

        public Object applyOrElse(Object node, scala.Function1 other) {
            return isDefinedAt(node) ? apply(node) : other.apply(node);
        }
    }

    /** Replaces what tells the time by columns, which name it in their metadata: rules would compute it once for all. */
    public static class ClockValues extends scala.runtime.AbstractPartialFunction {
        private final Expression now = column("current_timestamp", org.apache.spark.sql.types.DataTypes.TimestampType);
        private final Expression today = column("current_date", org.apache.spark.sql.types.DataTypes.DateType);

        private static Expression column(String name, DataType type) {
            Metadata metadata = new org.apache.spark.sql.types.MetadataBuilder().putString("clock", name).build();
            return new AttributeReference(name, type, true, metadata, NamedExpression$.MODULE$.newExprId(),
                seq(new ArrayList()));
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof org.apache.spark.sql.catalyst.expressions.CurrentTimestamp
                || node instanceof org.apache.spark.sql.catalyst.expressions.Now
                || node instanceof org.apache.spark.sql.catalyst.expressions.CurrentDate;
        }

        public Object apply(Object node) {
            return node instanceof org.apache.spark.sql.catalyst.expressions.CurrentDate ? today : now;
        }

        public Object applyOrElse(Object node, scala.Function1 other) {
            return isDefinedAt(node) ? apply(node) : other.apply(node);
        }
    }

    /** Puts LIMIT and OFFSET of queries with outer columns above their ORDER BY: there alone do rules look for it. */
    public static class OuterQueries extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return node instanceof org.apache.spark.sql.catalyst.expressions.SubqueryExpression
                && !((org.apache.spark.sql.catalyst.expressions.SubqueryExpression) node).getOuterAttrs().isEmpty();
        }

        public Object apply(Object node) {
            org.apache.spark.sql.catalyst.expressions.SubqueryExpression query =
                (org.apache.spark.sql.catalyst.expressions.SubqueryExpression) node;
            LogicalPlan before, plan = (LogicalPlan) query.plan();
            do {
                before = plan;
                plan = (LogicalPlan) before.transformDown(new Limits());
            } while (!plan.fastEquals(before));
            return query.withNewPlan(plan);
        }

        public Object applyOrElse(Object node, scala.Function1 other) {
            return isDefinedAt(node) ? apply(node) : other.apply(node);
        }
    }

    /** Moves LIMIT and OFFSET down by one relation, and a filter between them and ORDER BY below both. */
    public static class Limits extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            if (!isLimit(node)) return false;
            LogicalPlan below = child((LogicalPlan) node);
            if (isFilter(below)) return isSort(child(below));
            return isPassed(below) && isOrdered(child(below));
        }

        public Object apply(Object node) {
            LogicalPlan limit = (LogicalPlan) node, below = child(limit), input = child(below);
            if (isFilter(below)) return over(limit, over(input, over(below, child(input))));
            return over(below, over(limit, input));
        }

        public Object applyOrElse(Object node, scala.Function1 other) {
            return isDefinedAt(node) ? apply(node) : other.apply(node);
        }

        private static boolean isOrdered(LogicalPlan plan) {
            while (isLimit(plan) || isPassed(plan) || isFilter(plan)) plan = child(plan);
            return isSort(plan);
        }

        private static boolean isLimit(Object node) {
            return node instanceof org.apache.spark.sql.catalyst.plans.logical.GlobalLimit
                || node instanceof org.apache.spark.sql.catalyst.plans.logical.LocalLimit
                || node instanceof org.apache.spark.sql.catalyst.plans.logical.Offset;
        }

        static boolean isPassed(Object node) {
            return node instanceof Project || node instanceof SubqueryAlias;
        }

        static boolean isFilter(Object node) {
            return node instanceof org.apache.spark.sql.catalyst.plans.logical.Filter;
        }

        private static boolean isSort(Object node) {
            return node instanceof org.apache.spark.sql.catalyst.plans.logical.Sort;
        }

        static LogicalPlan child(LogicalPlan plan) {
            return (LogicalPlan) plan.children().apply(0);
        }

        static LogicalPlan over(LogicalPlan plan, LogicalPlan input) {
            List inputs = new ArrayList();
            inputs.add(input);
            return (LogicalPlan) plan.withNewChildren(seq(inputs));
        }
    }

    /** Stands for a table, and equals what stands for the same one: rules look for the same query again. */
    public static class NoRows extends org.apache.spark.sql.sources.BaseRelation {
        private final String table;

        public NoRows(LocalRelation relation) {
            Metadata first = relation.output().isEmpty() ? Metadata.empty()
                : ((NamedExpression) relation.output().apply(0)).metadata();
            table = first.contains(TABLE) ? first.getString(TABLE) : null;
        }

        public boolean equals(Object other) {
            return this == other || (table != null && other instanceof NoRows && table.equals(((NoRows) other).table));
        }

        public int hashCode() {
            return table == null ? System.identityHashCode(this) : table.hashCode();
        }

        public org.apache.spark.sql.SQLContext sqlContext() {
            return null;
        }

        public StructType schema() {
            return new StructType();
        }

        public String toString() {
            return "NoRows";
        }
    }

    /** Applies a rule to a plan and to the plans of its subqueries, the innermost first. */
    private static LogicalPlan everywhere(Rule rule, LogicalPlan plan) {
        LogicalPlan inner = (LogicalPlan) plan.transformAllExpressions(new Subqueries(rule));
        return (LogicalPlan) rule.apply(inner);
    }

    public static class Subqueries extends scala.runtime.AbstractPartialFunction {
        private final Rule rule;

        public Subqueries(Rule rule) {
            this.rule = rule;
        }

        public boolean isDefinedAt(Object node) {
            return node instanceof org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
        }

        public Object apply(Object node) {
            org.apache.spark.sql.catalyst.expressions.SubqueryExpression query =
                (org.apache.spark.sql.catalyst.expressions.SubqueryExpression) node;
            return query.withNewPlan(everywhere(rule, (LogicalPlan) query.plan()));
        }

        public Object applyOrElse(Object node, scala.Function1 other) {
            return isDefinedAt(node) ? apply(node) : other.apply(node);
        }
    }

    /** Puts count in place of functions that are counts, such as count_if: it is 0 for a row without a group. */
    public static class Counts extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            if (!(node instanceof org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression)) return false;
            Object function = ((Expression) node).children().apply(0);
            return function instanceof RuntimeReplaceable && ((RuntimeReplaceable) function).replacement()
                instanceof org.apache.spark.sql.catalyst.expressions.aggregate.Count;
        }

        public Object apply(Object node) {
            Expression found = (Expression) node;
            List parts = new ArrayList();
            for (int i = 0; i < found.children().size(); i++) parts.add(found.children().apply(i));
            parts.set(0, ((RuntimeReplaceable) parts.get(0)).replacement());
            return found.withNewChildren(seq(parts));
        }

        public Object applyOrElse(Object node, scala.Function1 other) {
            return isDefinedAt(node) ? apply(node) : other.apply(node);
        }
    }

    // --- collations ----------------------------------------------------------------------------------

    /**
     * Puts binary keys in place of texts with a collation where a plan groups, orders or compares them: a plan of
     * Substrait compares texts by their bytes. The least text of a group stands for it.
     */
    public static class Collations extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return node instanceof LogicalPlan;
        }

        public Object apply(Object node) {
            LogicalPlan plan = (LogicalPlan) node;
            String rule = isKeyed(plan.output(), 0) ? ruleOf(plan) : null;
            if (rule != null) {
                try {
                    plan = (LogicalPlan) rule("org.apache.spark.sql.catalyst.optimizer." + rule).apply(plan);
                } catch (Exception missing) {
                    return plan;  // the translation refuses it
                }
                return plan.transformUp(this);
            }
            if (plan instanceof Aggregate) plan = grouped((Aggregate) plan);
            if (plan instanceof Deduplicate) plan = deduplicated((Deduplicate) plan);
            if (plan instanceof org.apache.spark.sql.catalyst.plans.logical.Window) {
                plan = with(plan, "partitionSpec",
                    keys(((org.apache.spark.sql.catalyst.plans.logical.Window) plan).partitionSpec(), 0));
            }
            return plan.transformExpressions(new CollatedOrders());
        }

        public Object applyOrElse(Object node, scala.Function1 other) {
            return isDefinedAt(node) ? apply(node) : other.apply(node);
        }

        /** Returns the rule of Spark that makes a relation one of keys and conditions; null for all others. */
        private static String ruleOf(LogicalPlan plan) {
            if (plan instanceof Distinct) return "ReplaceDistinctWithAggregate";
            String kind = plan.getClass().getSimpleName();
            if (!kind.equals("Intersect") && !kind.equals("Except")) return null;
            if (((Boolean) plan.productElement(2)).booleanValue()) return null;
            return kind.equals("Except") ? "ReplaceExceptWithAntiJoin" : "ReplaceIntersectWithSemiJoin";
        }

        private static LogicalPlan grouped(Aggregate plan) {
            Map names = new HashMap();
            for (int i = 0; i < plan.groupingExpressions().size(); i++) {
                Expression key = (Expression) plan.groupingExpressions().apply(i);
                if (key(key) == key) continue;
                names.put(key.canonicalized(), new MinBy(key, key(key)).toAggregateExpression());
            }
            if (names.isEmpty()) return plan;
            List results = new ArrayList();
            for (int i = 0; i < plan.aggregateExpressions().size(); i++) {
                Expression result = (Expression) plan.aggregateExpressions().apply(i);
                keepMeasures(result, names);
                Expression made = renamed(result, names);
                if (!(made instanceof NamedExpression)) {
                    NamedExpression column = (NamedExpression) result;
                    made = new Alias(made, column.name(), column.exprId(), column.qualifier(),
                        scala.Option$.MODULE$.empty(), seq(new ArrayList()));
                }
                results.add(made);
            }
            LogicalPlan made = with(plan, "groupingExpressions", keys(plan.groupingExpressions(), 0));
            return with(made, "aggregateExpressions", seq(results));
        }

        /** Keeps measures as they are: they read the rows, not the keys of a group. */
        private static void keepMeasures(Expression found, Map names) {
            if (found instanceof AggregateExpression) names.put(found.canonicalized(), found);
            for (int i = 0; i < found.children().size(); i++) keepMeasures((Expression) found.children().apply(i), names);
        }

        private static LogicalPlan deduplicated(Deduplicate plan) {
            if (!isKeyed(plan.keys(), 0)) return plan;
            List columns = new ArrayList(), made = new ArrayList();
            for (int i = 0; i < plan.child().output().size(); i++) columns.add(plan.child().output().apply(i));
            for (int i = 0; i < plan.keys().size(); i++) {
                Expression found = (Expression) plan.keys().apply(i);
                if (key(found) == found) {
                    made.add(found);
                } else {
                    Alias key = new Alias(key(found), "key", NamedExpression$.MODULE$.newExprId(),
                        seq(new ArrayList()), scala.Option$.MODULE$.empty(), seq(new ArrayList()));
                    columns.add(key);
                    made.add(key.toAttribute());
                }
            }
            LogicalPlan keyed = with(with(plan, "child", new Project(seq(columns), plan.child())), "keys", seq(made));
            return new Project(plan.output(), keyed);
        }
    }

    /** Puts binary keys in place of texts with a collation that an expression orders, compares or tells apart. */
    public static class CollatedOrders extends scala.runtime.AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return node instanceof AggregateExpression
                || node instanceof org.apache.spark.sql.catalyst.expressions.SortOrder
                || node instanceof org.apache.spark.sql.catalyst.expressions.BinaryComparison;
        }

        public Object apply(Object node) {
            Expression found = (Expression) node;
            if (found instanceof AggregateExpression) {
                List parts = new ArrayList();
                for (int i = 0; i < found.children().size(); i++) parts.add(found.children().apply(i));
                parts.set(0, measure((Expression) parts.get(0), ((AggregateExpression) found).isDistinct()));
                return found.withNewChildren(seq(parts));
            }
            if (found instanceof org.apache.spark.sql.catalyst.expressions.BinaryComparison) {
                // A comparison with a constant is one expression of a row, which Spark computes.
                for (int i = 0; i < 2; i++) if (((Expression) found.children().apply(i)).foldable()) return found;
            }
            return keyed(found, 0);
        }

        public Object applyOrElse(Object node, scala.Function1 other) {
            return isDefinedAt(node) ? apply(node) : other.apply(node);
        }

        private static Expression measure(Expression function, boolean isDistinct) {
            String kind = function.getClass().getSimpleName();
            if (kind.equals("Count") && isDistinct) return keyed(function, 0);
            if (kind.equals("MinBy") || kind.equals("MaxBy") || kind.equals("MaxMinByK")) return keyed(function, 1);
            if (!isKeyed(function.children(), 0)) return function;
            Expression value = (Expression) function.children().apply(0);
            if (kind.equals("Min")) return new MinBy(value, key(value));
            if (kind.equals("Max")) return new MaxBy(value, key(value));
            return function;
        }
    }

    private static Expression key(Expression found) {
        return CollationKey$.MODULE$.injectCollationKey(found);
    }

    private static boolean isKeyed(scala.collection.Seq found, int first) {
        for (int i = first; i < found.size(); i++) {
            if (key((Expression) found.apply(i)) != found.apply(i)) return true;
        }
        return false;
    }

    /** Returns expressions, from the first on with binary keys in place of texts with a collation. */
    private static scala.collection.immutable.Seq keys(scala.collection.Seq found, int first) {
        List all = new ArrayList();
        for (int i = 0; i < found.size(); i++) all.add(i < first ? found.apply(i) : key((Expression) found.apply(i)));
        return seq(all);
    }

    private static Expression keyed(Expression found, int first) {
        return isKeyed(found.children(), first) ? (Expression) found.withNewChildren(keys(found.children(), first)) : found;
    }

    /** Returns a relation with another value of a field. */
    private static LogicalPlan with(LogicalPlan plan, String field, Object value) {
        Object[] parts = new Object[plan.productArity()];
        for (int i = 0; i < parts.length; i++) {
            parts[i] = plan.productElementName(i).equals(field) ? value : plan.productElement(i);
        }
        return (LogicalPlan) plan.makeCopy(parts);
    }

    private static Rule rule(String name) throws Exception {
        if (name.endsWith(".PushPredicateThroughJoin")) return new JoinFilters();
        if (name.endsWith(".PullOutGroupingExpressions")) return new GroupingQueries();
        if (name.endsWith(".InlineCTE")) {
            Class[] flags = new Class[Class.forName(name).getConstructors()[0].getParameterCount()];
            Object[] values = new Object[flags.length];
            for (int i = 0; i < flags.length; i++) values[i] = Boolean.valueOf(i == 0);
            return (Rule) Class.forName(name).getConstructors()[0].newInstance(values);
        }
        return (Rule) Class.forName(name + "$").getField("MODULE$").get(null);
    }

    // --- a tree as JSON ------------------------------------------------------------------------------

    /**
     * Returns the nodes of a plan that are in no plan before it, as a list in JSON; nodes refer to each other by number.
     * The number of the root comes last.
     */
    public String json(TreeNode root) throws Exception {
        List lines = new ArrayList();
        int number = write(root, lines);
        StringBuilder all = new StringBuilder("[");
        for (int i = 0; i < lines.size(); i++) all.append((String) lines.get(i)).append(",\n");
        return all.append(number).append("]").toString();
    }

    private int write(TreeNode node, List lines) throws Exception {
        Integer known = (Integer) numbers.get(node);
        if (known != null) return known.intValue();
        StringBuilder fields = new StringBuilder();
        for (int i = 0; i < node.productArity(); i++) {
            if (i > 0) fields.append(",");
            fields.append(quoted(node.productElementName(i))).append(":");
            if (node instanceof LocalRelation && node.productElementName(i).equals("data")) {
                rows((LocalRelation) node, fields, lines);
            } else {
                value(node.productElement(i), fields, lines, node);
            }
        }
        StringBuilder children = numbered(node.children(), lines);
        String kind = node.getClass().getSimpleName();
        if (node instanceof LogicalRelation && ((LogicalRelation) node).relation() instanceof NoRows) {
            kind = "LocalRelation";
            fields.append(",\"data\":[]");
        }
        StringBuilder line = new StringBuilder("{\"kind\":").append(quoted(kind));
        line.append(",\"children\":[").append(children).append("],\"fields\":{").append(fields).append("}");
        place(node.origin(), line);
        if (node instanceof Expression) expression((Expression) node, line, lines);
        if (node instanceof LogicalPlan) output((LogicalPlan) node, line);
        int number = nodes.size();
        lines.add(line.append("}").toString());
        nodes.add(node);
        numbers.put(node, Integer.valueOf(number));
        return number;
    }

    private void rows(LocalRelation relation, StringBuilder to, List lines) throws Exception {
        to.append("[");
        for (int i = 0; i < relation.data().size(); i++) {
            org.apache.spark.sql.catalyst.InternalRow row =
                (org.apache.spark.sql.catalyst.InternalRow) relation.data().apply(i);
            to.append(i == 0 ? "[" : ",[");
            for (int j = 0; j < relation.output().size(); j++) {
                DataType type = ((Expression) relation.output().apply(j)).dataType();
                if (j > 0) to.append(",");
                value(new Literal(row.isNullAt(j) ? null : row.get(j, type), type), to, lines, relation);
            }
            to.append("]");
        }
        to.append("]");
    }

    private void output(LogicalPlan plan, StringBuilder line) {
        line.append(",\"output\":[");
        scala.collection.Iterator columns = plan.output().iterator();  // Spark makes them anew at each call
        for (String before = "["; columns.hasNext(); before = ",[") {
            org.apache.spark.sql.catalyst.expressions.Attribute column =
                (org.apache.spark.sql.catalyst.expressions.Attribute) columns.next();
            line.append(before).append(column.exprId().id()).append(",").append(quoted(column.name()));
            line.append(",").append(type(column.dataType())).append(",").append(column.nullable()).append("]");
        }
        line.append("]");
    }

    private StringBuilder numbered(scala.collection.Seq found, List lines) throws Exception {
        StringBuilder all = new StringBuilder();
        for (int i = 0; i < found.size(); i++) {
            if (i > 0) all.append(",");
            all.append(write((TreeNode) found.apply(i), lines));
        }
        return all;
    }

    private void expression(Expression found, StringBuilder line, List lines) throws Exception {
        String type;
        Object canonical;
        boolean nullable;
        try {
            type = type(found.dataType());
            canonical = found.canonicalized();
            nullable = found.nullable();
        } catch (Throwable none) {
            return;  // a part of an expression, such as a frame, that has no value of its own
        }
        line.append(",\"type\":").append(type).append(",\"nullable\":").append(nullable);
        if (found instanceof NamedExpression) line.append(",\"id\":").append(((NamedExpression) found).exprId().id());
        if (found instanceof NamedExpression && !((NamedExpression) found).metadata().equals(Metadata.empty())) {
            line.append(",\"metadata\":").append(metadata(((NamedExpression) found).metadata()));
        }
        line.append(",\"deterministic\":").append(found.deterministic());
        line.append(",\"name\":").append(quoted(found.prettyName()));
        if (found instanceof RuntimeReplaceable) {
            line.append(",\"replacement\":").append(write(((RuntimeReplaceable) found).replacement(), lines));
        }
        if (found instanceof TimeZoneAwareExpression && ((TimeZoneAwareExpression) found).timeZoneId().isDefined()) {
            line.append(",\"zone\":").append(quoted((String) ((TimeZoneAwareExpression) found).timeZoneId().get()));
        }
        if (!same.containsKey(canonical)) same.put(canonical, Integer.valueOf(same.size()));
        line.append(",\"same\":").append(same.get(canonical));
    }

    private static void place(Origin origin, StringBuilder line) {
        if (origin.startIndex().isDefined()) {
            line.append(",\"start\":").append(origin.startIndex().get());
            if (origin.stopIndex().isDefined()) line.append(",\"stop\":").append(origin.stopIndex().get());
        }
        if (origin.objectName().isDefined()) line.append(",\"view\":").append(quoted((String) origin.objectName().get()));
    }

    private void value(Object found, StringBuilder to, List lines, TreeNode owner) throws Exception {
        if (found instanceof scala.Some) found = ((scala.Some) found).get();
        if (found == null || found instanceof scala.None$) {
            to.append("null");
        } else if (found instanceof TreeNode) {
            to.append("{\"#\":").append(write((TreeNode) found, lines)).append("}");
        } else if (owner instanceof Literal && !(found instanceof DataType)) {
            literal(found, ((Literal) owner).dataType(), to);
        } else if (found instanceof Boolean || found instanceof Integer || found instanceof Long) {
            to.append(found);
        } else if (found instanceof DataType) {
            to.append(type((DataType) found));
        } else if (found instanceof ExprId) {
            to.append(((ExprId) found).id());
        } else if (found instanceof Metadata) {
            to.append(metadata((Metadata) found));
        } else if (found instanceof CatalogTable) {
            CatalogTable table = (CatalogTable) found;
            to.append("{\"table\":").append(quoted(table.identifier().unquotedString()));
            to.append(",\"schema\":").append(table.schema().json()).append("}");
        } else if (found instanceof org.apache.spark.sql.execution.datasources.HadoopFsRelation) {
            files((org.apache.spark.sql.execution.datasources.HadoopFsRelation) found, to);
        } else if (found instanceof org.apache.spark.sql.catalyst.plans.ExistenceJoin) {
            value(((org.apache.spark.sql.catalyst.plans.ExistenceJoin) found).exists(), to, lines, owner);
        } else if (found instanceof AliasIdentifier) {
            AliasIdentifier alias = (AliasIdentifier) found;
            to.append("[");
            for (int i = 0; i < alias.qualifier().size(); i++)
                to.append(quoted((String) alias.qualifier().apply(i))).append(",");
            to.append(quoted(alias.name())).append("]");
        } else if (found instanceof scala.collection.Iterable && !(found instanceof scala.collection.Map)) {
            values(((scala.collection.Iterable) found).iterator(), to, lines, owner);
        } else if (found instanceof scala.Product && found.getClass().getName().startsWith("scala.Tuple")) {
            values(((scala.Product) found).productIterator(), to, lines, owner);
        } else {
            to.append(quoted(found instanceof String ? (String) found : named(found)));
        }
    }

    private void values(scala.collection.Iterator found, StringBuilder to, List lines, TreeNode owner) throws Exception {
        to.append("[");
        boolean first = true;
        while (found.hasNext()) {
            if (!first) to.append(",");
            first = false;
            value(found.next(), to, lines, owner);
        }
        to.append("]");
    }

    /** Returns a type as Spark's JSON, in which a field of a struct keeps the collation in its type. */
    private String type(DataType found) {
        String text = (String) texts.get(found);
        if (text == null) texts.put(found, text = typeText(found));
        return text;
    }

    private String typeText(DataType found) {
        if (found instanceof org.apache.spark.sql.types.ArrayType) {
            org.apache.spark.sql.types.ArrayType array = (org.apache.spark.sql.types.ArrayType) found;
            return "{\"type\":\"array\",\"elementType\":" + type(array.elementType())
                + ",\"containsNull\":" + array.containsNull() + "}";
        }
        if (found instanceof org.apache.spark.sql.types.MapType) {
            org.apache.spark.sql.types.MapType map = (org.apache.spark.sql.types.MapType) found;
            return "{\"type\":\"map\",\"keyType\":" + type(map.keyType()) + ",\"valueType\":" + type(map.valueType())
                + ",\"valueContainsNull\":" + map.valueContainsNull() + "}";
        }
        if (!(found instanceof StructType)) return found.json();
        StructField[] fields = ((StructType) found).fields();
        StringBuilder all = new StringBuilder("{\"type\":\"struct\",\"fields\":[");
        for (int i = 0; i < fields.length; i++) {
            all.append(i == 0 ? "" : ",").append("{\"name\":").append(quoted(fields[i].name()));
            all.append(",\"type\":").append(type(fields[i].dataType()));
            all.append(",\"nullable\":").append(fields[i].nullable()).append("}");
        }
        return all.append("]}").toString();
    }

    private String metadata(Metadata found) {
        String text = (String) texts.get(found);
        if (text == null) texts.put(found, text = found.json());
        return text;
    }

    /** Returns the name of a constant of Scala, such as LeftOuter, or the text of another value. */
    private static String named(Object found) {
        String kind = found.getClass().getSimpleName();
        return kind.endsWith("$") ? kind.substring(0, kind.length() - 1) : found.toString();
    }

    private static void files(
            org.apache.spark.sql.execution.datasources.HadoopFsRelation relation, StringBuilder to) {
        to.append("{\"format\":").append(quoted(relation.fileFormat().toString())).append(",\"paths\":[");
        scala.collection.Seq paths = relation.location().rootPaths();
        for (int i = 0; i < paths.size(); i++) to.append(i == 0 ? "" : ",").append(quoted(paths.apply(i).toString()));
        to.append("],\"options\":{");
        scala.collection.Iterator options = relation.options().iterator();
        boolean first = true;
        while (options.hasNext()) {
            scala.Tuple2 option = (scala.Tuple2) options.next();
            if (!first) to.append(",");
            first = false;
            to.append(quoted((String) option._1())).append(":").append(quoted((String) option._2()));
        }
        to.append("}}");
    }

    private static void literal(Object found, DataType type, StringBuilder to) {
        if (found == null) {
            to.append("null");
        } else if (found instanceof org.apache.spark.sql.catalyst.util.ArrayData) {
            elements((org.apache.spark.sql.catalyst.util.ArrayData) found,
                ((org.apache.spark.sql.types.ArrayType) type).elementType(), to);
        } else if (found instanceof org.apache.spark.sql.catalyst.util.MapData) {
            org.apache.spark.sql.catalyst.util.MapData map = (org.apache.spark.sql.catalyst.util.MapData) found;
            to.append("[");
            elements(map.keyArray(), ((org.apache.spark.sql.types.MapType) type).keyType(), to);
            to.append(",");
            elements(map.valueArray(), ((org.apache.spark.sql.types.MapType) type).valueType(), to);
            to.append("]");
        } else if (found instanceof org.apache.spark.sql.catalyst.InternalRow) {
            org.apache.spark.sql.types.StructField[] fields = ((org.apache.spark.sql.types.StructType) type).fields();
            org.apache.spark.sql.catalyst.InternalRow row = (org.apache.spark.sql.catalyst.InternalRow) found;
            for (int i = 0; i < fields.length; i++) {
                to.append(i == 0 ? "[" : ",");
                literal(row.isNullAt(i) ? null : row.get(i, fields[i].dataType()), fields[i].dataType(), to);
            }
            to.append(fields.length == 0 ? "[]" : "]");
        } else if (found instanceof org.apache.spark.unsafe.types.CalendarInterval) {
            org.apache.spark.unsafe.types.CalendarInterval interval = (org.apache.spark.unsafe.types.CalendarInterval) found;
            to.append("[").append(interval.months).append(",").append(interval.days).append(",");
            to.append(interval.microseconds).append("]");
        } else if (found instanceof VariantVal) {
            VariantVal variant = (VariantVal) found;
            to.append("[");
            literal(variant.getValue(), DataTypes.BinaryType, to);
            to.append(",");
            literal(variant.getMetadata(), DataTypes.BinaryType, to);
            to.append("]");
        } else if (found instanceof byte[]) {
            to.append(quoted(java.util.Base64.getEncoder().encodeToString((byte[]) found)));
        } else if (found instanceof org.apache.spark.sql.types.Decimal) {
            to.append(quoted(((org.apache.spark.sql.types.Decimal) found).toJavaBigDecimal().toPlainString()));
        } else {
            to.append(quoted(found.toString()));
        }
    }

    private static void elements(org.apache.spark.sql.catalyst.util.ArrayData all, DataType type, StringBuilder to) {
        for (int i = 0; i < all.numElements(); i++) {
            to.append(i == 0 ? "[" : ",");
            literal(all.isNullAt(i) ? null : all.get(i, type), type, to);
        }
        to.append(all.numElements() == 0 ? "[]" : "]");
    }

    private static String quoted(String text) {
        StringBuilder all = new StringBuilder("\"");
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') all.append('\\').append(c);
            else if (c < ' ' || Character.isSurrogate(c)) all.append(String.format("\\u%04x", new Object[] {Integer.valueOf(c)}));
            else all.append(c);
        }
        return all.append('"').toString();
    }

    private static scala.collection.immutable.Seq seq(List found) {
        return scala.jdk.javaapi.CollectionConverters.asScala(found).toList();
    }

    // --- an expression as text -----------------------------------------------------------------------

    /**
     * Returns an expression of a written tree as SQL over columns c0, c1, ..., which stand for the nodes of
     * the numbers in `leaves`, with spaces between. Returns null where the text would not give the same expression again.
     */
    public String text(Object session, int number, String leaves) throws Exception {
        Map renamed = new HashMap();
        List columns = new ArrayList();
        String[] parts = leaves.isEmpty() ? new String[0] : leaves.split(" ");
        for (int i = 0; i < parts.length; i++) {
            Expression leaf = (Expression) nodes.get(Integer.parseInt(parts[i]));
            AttributeReference column = new AttributeReference("c" + i, stored(leaf.dataType()), leaf.nullable(),
                Metadata.empty(), NamedExpression$.MODULE$.newExprId(), seq(new ArrayList()));
            columns.add(column);
            renamed.put(leaf.canonicalized(), column);
        }
        for (int i = 0; i < parts.length; i++) {
            Expression leaf = (Expression) nodes.get(Integer.parseInt(parts[i]));
            // A column of a plan has no names of fields, and its intervals no units.
            DataType type = leaf.dataType();
            if (type.existsRecursively(new IsStruct()) || !type.equals(stored(type))) {
                DataType named = changed(type, null, null, null, PARTS).asNullable();
                String text = "CAST(" + inMonths("c" + i, named) + " AS " + named.sql() + ")";
                renamed.put(leaf.canonicalized(), resolved(session, variants("variant_of_parts", text, type, 0), columns));
            }
        }
        // A measure is found by its whole text, so its own definitions are still in it.
        Expression wanted = withoutDefinitions(renamed((Expression) nodes.get(number), renamed), new HashMap());
        Expression replaced = renamed(wanted, renamed);
        String text = checked(session, replaced, replaced, columns);
        if (text == null) text = checked(session, withoutReplaceable(replaced), replaced, columns);
        DataType type = wanted.dataType(), stored = stored(type);
        if (text == null || type.equals(stored)) return text;
        DataType binaries = changed(type, null, null, null, PARTS);
        if (!binaries.equals(type)) {  // a value is computed once, whatever its number of parts
            text = "get(transform(array(" + text + "), v -> " + variants("parts_of_variant", "v", type, 0) + "), 0)";
        }
        return binaries.equals(stored) ? text : "CAST(" + inMonths(text, binaries) + " AS " + stored.sql() + ")";
    }

    static final StructType PARTS =
        new StructType().add("value", DataTypes.BinaryType).add("metadata", DataTypes.BinaryType);

    /** Returns a value with a function called for each variant in it. */
    private static String variants(String function, String text, DataType type, int depth) {
        String name = "v" + depth;
        if (!changed(type, null, null, null, PARTS).equals(type)) {
            if (type instanceof VariantType) return function + "(" + text + ")";
            if (type instanceof org.apache.spark.sql.types.ArrayType) {
                DataType element = ((org.apache.spark.sql.types.ArrayType) type).elementType();
                return "transform(" + text + ", " + name + " -> " + variants(function, name, element, depth + 1) + ")";
            }
            if (type instanceof org.apache.spark.sql.types.MapType) {
                DataType value = ((org.apache.spark.sql.types.MapType) type).valueType();
                return "transform_values(" + text + ", (k" + depth + ", " + name + ") -> "
                    + variants(function, name, value, depth + 1) + ")";
            }
            StructField[] fields = ((StructType) type).fields();
            StringBuilder all = new StringBuilder("if(" + text + " IS NULL, NULL, named_struct(");
            for (int i = 0; i < fields.length; i++) {
                String part = text + ".`" + fields[i].name().replace("`", "``") + "`";
                all.append(i == 0 ? "" : ", ").append(constant(fields[i].name())).append(", ");
                all.append(variants(function, part, fields[i].dataType(), depth));
            }
            return all.append("))").toString();
        }
        return text;
    }

    private static String constant(String text) {
        return new Literal(org.apache.spark.unsafe.types.UTF8String.fromString(text), DataTypes.StringType).sql();
    }

    /** Puts expressions in place of the functions of texts that have no name in Spark. */
    public static class OwnFunctions extends scala.runtime.AbstractPartialFunction {
        private static final String[] NAMES = {"collationkey", "variant_of_parts", "parts_of_variant", "rows_of_variant"};

        public boolean isDefinedAt(Object node) {
            return java.util.Arrays.asList(NAMES).contains(nameOf(node));
        }

        public Object apply(Object node) {
            scala.collection.immutable.Seq arguments =
                ((org.apache.spark.sql.catalyst.analysis.UnresolvedFunction) node).arguments();
            Expression first = (Expression) arguments.apply(0);
            if (nameOf(node).equals("collationkey")) return new CollationKey(first);
            if (nameOf(node).equals("parts_of_variant")) return partsOf(first);
            if (nameOf(node).equals("rows_of_variant")) return rowsOf(first);
            if (arguments.size() == 1) {
                return made(VariantVal.class, org.apache.spark.sql.types.VariantType$.MODULE$, list(field(first, 0), field(first, 1)));
            }
            return new Literal(new VariantVal((byte[]) ((Literal) first).value(),
                (byte[]) ((Literal) arguments.apply(1)).value()), org.apache.spark.sql.types.VariantType$.MODULE$);
        }

        public Object applyOrElse(Object node, scala.Function1 other) {
            return isDefinedAt(node) ? apply(node) : other.apply(node);
        }

        private static String nameOf(Object node) {
            return node instanceof org.apache.spark.sql.catalyst.analysis.UnresolvedFunction
                ? ((org.apache.spark.sql.catalyst.analysis.UnresolvedFunction) node).nameParts().mkString(".") : "";
        }

        private static Expression field(Expression parts, int ordinal) {
            return new org.apache.spark.sql.catalyst.expressions.GetStructField(
                parts, ordinal, scala.Option$.MODULE$.empty());
        }

        private static Expression made(Class of, DataType type, scala.collection.immutable.Seq arguments) {
            return new org.apache.spark.sql.catalyst.expressions.objects.NewInstance(
                of, arguments, list(), true, type, scala.Option$.MODULE$.empty());
        }

        private static Expression partsOf(Expression variant) {
            List parts = new ArrayList();
            for (int i = 0; i < 2; i++) {
                String name = PARTS.fields()[i].name();
                parts.add(new Literal(org.apache.spark.unsafe.types.UTF8String.fromString(name), DataTypes.StringType));
                parts.add(new org.apache.spark.sql.catalyst.expressions.objects.Invoke(variant,
                    i == 0 ? "getValue" : "getMetadata", DataTypes.BinaryType, list(), list(), true, true, true));
            }
            return new org.apache.spark.sql.catalyst.expressions.If(
                new org.apache.spark.sql.catalyst.expressions.IsNull(variant), new Literal(null, PARTS),
                new org.apache.spark.sql.catalyst.expressions.CreateNamedStruct(seq(parts)));
        }

        /** Returns the rows that variant_explode makes of a variant, as a list. */
        private static Expression rowsOf(Expression variant) {
            Expression isNull = new org.apache.spark.sql.catalyst.expressions.IsNull(variant);
            Expression rows = new org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke(
                org.apache.spark.sql.catalyst.expressions.variant.VariantExplode.class,
                new org.apache.spark.sql.types.ObjectType(scala.collection.Seq.class), "variantExplode",
                list(variant, isNull), list(), false, false, true, scala.Option$.MODULE$.empty());
            DataType row = new org.apache.spark.sql.catalyst.expressions.variant.VariantExplode(variant).elementSchema();
            return made(org.apache.spark.sql.catalyst.util.GenericArrayData.class, DataTypes.createArrayType(row), list(rows));
        }

        private static scala.collection.immutable.Seq list() {
            return seq(new ArrayList());
        }

        private static scala.collection.immutable.Seq list(Object only) {
            return seq(java.util.Collections.singletonList(only));
        }

        private static scala.collection.immutable.Seq list(Object first, Object second) {
            return seq(java.util.Arrays.asList(new Object[] {first, second}));
        }
    }

    /**
     * Returns the type that values have in a plan: intervals are months, or days to seconds; nulls are texts;
     * a variant is its two binaries; no text has a collation.
     */
    private static DataType stored(DataType found) {
        return changed(found, DataTypes.IntegerType, org.apache.spark.sql.types.DayTimeIntervalType$.MODULE$.DEFAULT(),
            DataTypes.StringType, PARTS);
    }

    /** Returns a value of a type, or one as it is stored, with intervals of months: Spark casts these to integers. */
    private static String inMonths(String text, DataType type) {
        DataType months = changed(type, new org.apache.spark.sql.types.YearMonthIntervalType((byte) 1, (byte) 1), null, null, null);
        return months.equals(changed(type, DataTypes.IntegerType, null, null, null)) ? text : "CAST(" + text + " AS " + months.sql() + ")";
    }

    /** Returns a type with others in place of intervals of months and seconds, of texts or no type, and variants; null keeps one. */
    private static DataType changed(
            DataType found, DataType months, DataType seconds, DataType none, DataType variant) {
        if (none != null && found instanceof StringType) return none;
        if (found instanceof org.apache.spark.sql.types.YearMonthIntervalType) return months == null ? found : months;
        if (found instanceof org.apache.spark.sql.types.DayTimeIntervalType) return seconds == null ? found : seconds;
        if (found instanceof org.apache.spark.sql.types.NullType) return none == null ? found : none;
        if (found instanceof VariantType) return variant == null ? found : variant;
        if (found instanceof org.apache.spark.sql.types.ArrayType) {
            org.apache.spark.sql.types.ArrayType array = (org.apache.spark.sql.types.ArrayType) found;
            return DataTypes.createArrayType(changed(array.elementType(), months, seconds, none, variant), array.containsNull());
        }
        if (found instanceof org.apache.spark.sql.types.MapType) {
            org.apache.spark.sql.types.MapType map = (org.apache.spark.sql.types.MapType) found;
            return DataTypes.createMapType(changed(map.keyType(), months, seconds, none, variant),
                changed(map.valueType(), months, seconds, none, variant), map.valueContainsNull());
        }
        if (!(found instanceof StructType)) return found;
        StructField[] fields = ((StructType) found).fields();
        StructField[] made = new StructField[fields.length];
        for (int i = 0; i < fields.length; i++) {
            made[i] = new StructField(fields[i].name(), changed(fields[i].dataType(), months, seconds, none, variant),
                fields[i].nullable(), fields[i].metadata());
        }
        return new StructType(made);
    }

    public static class IsStruct extends scala.runtime.AbstractFunction1 {
        public Object apply(Object type) {
            return Boolean.valueOf(type instanceof StructType);
        }
    }

    /** Returns an expression with the parts that Spark computes once at every place that names them. */
    private static Expression withoutDefinitions(Expression found, Map definitions) {
        if (found instanceof org.apache.spark.sql.catalyst.expressions.CommonExpressionRef) {
            Object part = definitions.get(((org.apache.spark.sql.catalyst.expressions.CommonExpressionRef) found).id());
            return part == null ? found : (Expression) part;
        }
        if (found instanceof org.apache.spark.sql.catalyst.expressions.With) {
            org.apache.spark.sql.catalyst.expressions.With with = (org.apache.spark.sql.catalyst.expressions.With) found;
            Map all = new HashMap(definitions);
            for (int i = 0; i < with.defs().size(); i++) {
                org.apache.spark.sql.catalyst.expressions.CommonExpressionDef part =
                    (org.apache.spark.sql.catalyst.expressions.CommonExpressionDef) with.defs().apply(i);
                all.put(part.id(), withoutDefinitions(part.child(), definitions));
            }
            return withoutDefinitions(with.child(), all);
        }
        List parts = new ArrayList();
        for (int i = 0; i < found.children().size(); i++) {
            parts.add(withoutDefinitions((Expression) found.children().apply(i), definitions));
        }
        return (Expression) found.withNewChildren(seq(parts));
    }

    private static Expression withoutReplaceable(Expression found) {
        if (found instanceof RuntimeReplaceable) return withoutReplaceable(((RuntimeReplaceable) found).replacement());
        List parts = new ArrayList();
        for (int i = 0; i < found.children().size(); i++) {
            parts.add(withoutReplaceable((Expression) found.children().apply(i)));
        }
        return (Expression) found.withNewChildren(seq(parts));
    }

    private String checked(Object session, Expression found, Expression wanted, List columns) {
        String text = printed(found);
        Expression again = resolved(session, text, columns);
        if (again != null) again = withoutDefinitions(again, new HashMap());
        if (again == null || !again.dataType().sameType(wanted.dataType())) return null;
        if (plain(withoutReplaceable(again)).canonicalized().equals(plain(withoutReplaceable(wanted)).canonicalized())) {
            return text;
        }
        return null;
    }

    /** Returns an expression with constants in place of what is constant, without names and casts that change nothing. */
    private static Expression plain(Expression found) {
        if (found instanceof org.apache.spark.sql.catalyst.expressions.Alias) return plain((Expression) found.children().apply(0));
        if (found instanceof NamedLambdaVariable) {  // a cast to a type with nulls adds these to elements
            NamedLambdaVariable name = (NamedLambdaVariable) found;
            return new NamedLambdaVariable(
                name.name(), name.dataType().asNullable(), true, name.exprId(), name.value());
        }
        List parts = new ArrayList();
        for (int i = 0; i < found.children().size(); i++) parts.add(plain((Expression) found.children().apply(i)));
        Expression made = (Expression) found.withNewChildren(seq(parts));
        if (made instanceof org.apache.spark.sql.catalyst.expressions.ArraysZip) {
            List names = new ArrayList();
            for (int i = 0; i < parts.size(); i++) names.add(new Literal(
                org.apache.spark.unsafe.types.UTF8String.fromString("" + i), DataTypes.StringType));
            made = new org.apache.spark.sql.catalyst.expressions.ArraysZip(seq(parts), seq(names));
        }
        if (made instanceof org.apache.spark.sql.catalyst.expressions.Cast && DataType.equalsStructurally(
                ((Expression) parts.get(0)).dataType(), made.dataType(), true)) return (Expression) parts.get(0);
        if (!made.foldable()) return made;
        try {
            return constant(made.eval(null), made.dataType().asNullable());
        } catch (Exception failing) {
            return made;
        }
    }

    /** Returns a constant in which an array is in the form that compares and prints. */
    private static Literal constant(Object value, DataType type) {
        if (!(value instanceof org.apache.spark.sql.catalyst.util.ArrayData)) return new Literal(value, type);
        return new Literal(new org.apache.spark.sql.catalyst.util.GenericArrayData(
            ((org.apache.spark.sql.catalyst.util.ArrayData) value).toObjectArray(
                ((org.apache.spark.sql.types.ArrayType) type).elementType())), type);
    }

    /** Returns an expression with other leaves. What Spark computes in place of a function keeps in step with it. */
    private static Expression renamed(Expression found, Map names) {
        Expression name = (Expression) names.get(found.canonicalized());
        if (name != null) return name;
        if (found instanceof org.apache.spark.sql.catalyst.expressions.InheritAnalysisRules) {
            Object[] parts = new Object[found.productArity()];
            for (int i = 0; i < parts.length; i++) parts[i] = renamedPart(found.productElement(i), names);
            return (Expression) found.makeCopy(parts);
        }
        return (Expression) found.withNewChildren((scala.collection.immutable.Seq) renamedPart(found.children(), names));
    }

    private static Object renamedPart(Object part, Map names) {
        if (part instanceof Expression) return renamed((Expression) part, names);
        if (part instanceof scala.Some) {
            return scala.Option$.MODULE$.apply(renamedPart(((scala.Some) part).get(), names));
        }
        if (!(part instanceof scala.collection.immutable.Seq)) return part;
        List all = new ArrayList();
        scala.collection.immutable.Seq parts = (scala.collection.immutable.Seq) part;
        for (int i = 0; i < parts.size(); i++) all.add(renamedPart(parts.apply(i), names));
        return seq(all);
    }

    /** Returns an expression as SQL that Spark reads as the same expression. Parts stand in it as texts. */
    private static String printed(Expression found) {
        if (found instanceof org.apache.spark.sql.catalyst.expressions.LambdaFunction) return lambda(found);
        if (found instanceof NamedLambdaVariable) {
            return "`" + ((NamedLambdaVariable) found).name() + "_" + ((NamedLambdaVariable) found).exprId().id() + "`";
        }
        String special = special(found);
        if (special != null) return special;
        if (found instanceof org.apache.spark.sql.catalyst.expressions.InheritAnalysisRules) {
            scala.collection.Seq parts =
                ((org.apache.spark.sql.catalyst.expressions.InheritAnalysisRules) found).parameters().toSeq();
            if (found instanceof org.apache.spark.sql.catalyst.expressions.Extract) return call("date_part", parts);
            if (hasLambda(parts) || hasVariant(found)) return call(found.prettyName(), parts);
            return found.sql();
        }
        if (found instanceof org.apache.spark.sql.catalyst.expressions.CreateNamedStruct) {
            return call("named_struct", found.children());  // `struct(c0)` would name its field c0
        }
        if (found instanceof org.apache.spark.sql.catalyst.expressions.JsonToStructs) {
            org.apache.spark.sql.catalyst.expressions.JsonToStructs read =
                (org.apache.spark.sql.catalyst.expressions.JsonToStructs) found;
            return reader("from_json", read.child(), read.schema(), read.options());
        }
        if (found instanceof org.apache.spark.sql.catalyst.expressions.CsvToStructs) {
            org.apache.spark.sql.catalyst.expressions.CsvToStructs read =
                (org.apache.spark.sql.catalyst.expressions.CsvToStructs) found;
            return reader("from_csv", read.child(), read.schema(), read.options());
        }
        if (found instanceof Literal && ((Literal) found).value() == null) {
            String name = found.dataType().sql();
            return name.equals("VOID") ? "NULL" : "CAST(NULL AS " + name + ")";
        }
        if (found instanceof Literal && found.dataType() instanceof VariantType) {
            VariantVal variant = (VariantVal) ((Literal) found).value();
            return "variant_of_parts(" + new Literal(variant.getValue(), DataTypes.BinaryType).sql() + ", "
                + new Literal(variant.getMetadata(), DataTypes.BinaryType).sql() + ")";
        }
        if (found instanceof Literal) {
            String text = constant(((Literal) found).value(), found.dataType()).sql();
            if (((Literal) found).value() instanceof CalendarInterval) text = constant(((Literal) found).value().toString());
            return ofOwnType((Literal) found) ? text : "CAST(" + text + " AS " + found.dataType().sql() + ")";
        }
        if (found.children().isEmpty()) return found.sql();
        if (found instanceof org.apache.spark.sql.catalyst.expressions.Alias) return printed((Expression) found.children().apply(0));
        if (hasLambda(found.children())) return call(found.prettyName(), found.children());
        List texts = new ArrayList();
        for (int i = 0; i < found.children().size(); i++) {
            Expression child = (Expression) found.children().apply(i);
            boolean isPlain = child instanceof AttributeReference || (child instanceof Literal
                && ((Literal) child).value() != null && ofOwnType((Literal) child) && !(child.dataType() instanceof VariantType)
                && !(child.dataType() instanceof org.apache.spark.sql.types.ArrayType));
            texts.add(isPlain ? child : new PrettyAttribute(printed(child), child.dataType()));
        }
        return ((Expression) found.withNewChildren(seq(texts))).sql();
    }

    /** Returns whether the text of a constant has its type: a decimal has only the digits of its value, an interval units. */
    private static boolean ofOwnType(Literal found) {
        if (found.value() instanceof CalendarInterval) return false;
        if (!found.dataType().existsRecursively(new IsDecimal())) return true;
        return found.value() instanceof org.apache.spark.sql.types.Decimal && Literal$.MODULE$.apply(
            ((org.apache.spark.sql.types.Decimal) found.value()).toJavaBigDecimal()).dataType().equals(found.dataType());
    }

    public static class IsDecimal extends scala.runtime.AbstractFunction1 {
        public Object apply(Object type) {
            return Boolean.valueOf(type instanceof org.apache.spark.sql.types.DecimalType);
        }
    }

    /** Returns the text of an expression whose own text Spark reads as another one; null for all others. */
    private static String special(Expression found) {
        String kind = found.getClass().getSimpleName();
        scala.collection.Seq parts = found.children();
        if (kind.equals("XmlToStructs")) {
            return reader("from_xml", (Expression) parts.apply(0), (DataType) found.productElement(0),
                (scala.collection.Map) found.productElement(1));
        }
        if (kind.equals("StructsToJson") || kind.equals("StructsToCsv") || kind.equals("StructsToXml")) {
            return withOptions(found.prettyName() + "(" + printed((Expression) parts.apply(0)),
                (scala.collection.Map) found.productElement(0));
        }
        if (kind.equals("ArraysZip")) {  // its own text has other names of fields
            return "CAST(" + call("arrays_zip", parts) + " AS " + found.dataType().sql() + ")";
        }
        if (kind.equals("VariantGet")) {  // its own text lacks the type
            return found.prettyName() + "(" + printed((Expression) parts.apply(0)) + ", "
                + printed((Expression) parts.apply(1)) + ", " + constant(found.dataType().sql()) + ")";
        }
        if (kind.equals("NewInstance")) {
            return "variant_of_parts(" + printed((Expression) ((Expression) parts.apply(0)).children().apply(0)) + ")";
        }
        if (kind.equals("Collate")) return "(" + printed((Expression) parts.apply(0)) + " COLLATE " + parts.apply(1) + ")";
        if (kind.equals("YearOfWeek")) return call("date_part", "'YEAROFWEEK'", parts);
        if (kind.equals("SecondWithFraction")) return call("date_part", "'SECOND'", parts);
        if (kind.startsWith("ExtractANSIInterval")) {
            return call("date_part", "'" + kind.substring("ExtractANSIInterval".length()) + "'", parts);
        }
        if (kind.equals("Cast") && parts.apply(0).getClass().getSimpleName().equals("TimestampAddInterval")
                && ((Expression) parts.apply(0)).dataType().equals(found.dataType())) {
            return printed((Expression) parts.apply(0));  // Spark adds this cast to the sum
        }
        if (kind.equals("Cast") && !(found.dataType() instanceof org.apache.spark.sql.types.AtomicType)) {
            // The own text of such a cast leaves the cast out.
            String mode = ((org.apache.spark.sql.catalyst.expressions.Cast) found).evalMode().toString();
            return (mode.equals("TRY") ? "TRY_CAST(" : "CAST(") + printed((Expression) parts.apply(0)) + " AS "
                + found.dataType().sql() + ")";
        }
        if (kind.equals("TimestampAddInterval") || kind.equals("DateAddInterval") || kind.equals("DateAddYMInterval")) {
            return "(" + printed((Expression) parts.apply(0)) + " + " + printed((Expression) parts.apply(1)) + ")";
        }
        if (found instanceof org.apache.spark.sql.catalyst.expressions.MultiLikeBase) {
            org.apache.spark.sql.catalyst.expressions.MultiLikeBase like =
                (org.apache.spark.sql.catalyst.expressions.MultiLikeBase) found;
            StringBuilder all = new StringBuilder("(").append(printed((Expression) parts.apply(0)));
            all.append(kind.startsWith("Not") ? " NOT LIKE " : " LIKE ").append(kind.endsWith("Any") ? "ANY (" : "ALL (");
            for (int i = 0; i < like.patterns().size(); i++) {
                all.append(i == 0 ? "" : ", ");
                all.append(new Literal(like.patterns().apply(i), org.apache.spark.sql.types.StringType$.MODULE$).sql());
            }
            return all.append("))").toString();
        }
        return null;
    }

    private static String reader(String name, Expression child, DataType schema, scala.collection.Map options) {
        return withOptions(name + "(" + printed(child) + ", " + constant(schema.sql()), options);
    }

    private static String withOptions(String call, scala.collection.Map options) {
        StringBuilder all = new StringBuilder(call);
        scala.collection.Iterator each = options.iterator();
        StringBuilder pairs = new StringBuilder();
        while (each.hasNext()) {
            scala.Tuple2 option = (scala.Tuple2) each.next();
            pairs.append(pairs.length() == 0 ? "" : ", ").append("'").append(option._1()).append("', '");
            pairs.append(option._2().toString().replace("'", "\\'")).append("'");
        }
        return all.append(pairs.length() == 0 ? "" : ", map(" + pairs + ")").append(")").toString();
    }

    private static boolean hasVariant(Expression found) {
        if (found.dataType() instanceof VariantType) return true;
        for (int i = 0; i < found.children().size(); i++) {
            if (hasVariant((Expression) found.children().apply(i))) return true;
        }
        return false;
    }

    private static boolean hasLambda(scala.collection.Seq parts) {
        for (int i = 0; i < parts.size(); i++) {
            if (parts.apply(i) instanceof org.apache.spark.sql.catalyst.expressions.LambdaFunction) return true;
        }
        return false;
    }

    private static String call(String name, scala.collection.Seq parts) {
        StringBuilder all = new StringBuilder(name).append("(");
        for (int i = 0; i < parts.size(); i++) {
            if (i > 0) all.append(", ");
            all.append(printed((Expression) parts.apply(i)));
        }
        return all.append(")").toString();
    }

    private static String call(String name, String first, scala.collection.Seq parts) {
        return name + "(" + first + ", " + call("", parts).substring(1);
    }

    private static String lambda(Expression found) {
        org.apache.spark.sql.catalyst.expressions.LambdaFunction made =
            (org.apache.spark.sql.catalyst.expressions.LambdaFunction) found;
        StringBuilder names = new StringBuilder();
        for (int i = 0; i < made.arguments().size(); i++) {
            names.append(i == 0 ? "" : ", ").append(printed((Expression) made.arguments().apply(i)));
        }
        String all = made.arguments().size() == 1 ? names.toString() : "(" + names + ")";
        return all + " -> " + printed(made.function());
    }

    /** Returns the expression of a text over columns c0, c1, ... of types in JSON; null where Spark does not read it. */
    public Expression expression(Object session, String text, List types) {
        List columns = new ArrayList();
        for (int i = 0; i < types.size(); i++) {
            columns.add(new AttributeReference("c" + i, DataType.fromJson((String) types.get(i)), true,
                Metadata.empty(), NamedExpression$.MODULE$.newExprId(), seq(new ArrayList())));
        }
        return resolved(session, text, columns);
    }

    /** Returns an expression over columns c0, c1, ... as a column over other columns. */
    public org.apache.spark.sql.Column column(Expression found, List arguments) {
        Map names = new HashMap();
        scala.collection.Iterator columns = found.references().iterator();
        while (columns.hasNext()) {
            AttributeReference column = (AttributeReference) columns.next();
            int place = Integer.parseInt(column.name().substring(1));
            names.put(column.canonicalized(), org.apache.spark.sql.classic.ExpressionUtils$.MODULE$.expression(
                (org.apache.spark.sql.Column) arguments.get(place)));
        }
        return org.apache.spark.sql.classic.ExpressionUtils$.MODULE$.column(
            renamed(withoutDefinitions(found, new HashMap()), names));
    }

    /** Returns the expression of a text over columns, or null where Spark does not read it. */
    private Expression resolved(Object session, String text, List columns) {
        org.apache.spark.sql.classic.SparkSession spark = (org.apache.spark.sql.classic.SparkSession) session;
        org.apache.spark.sql.internal.SQLConf conf = spark.sessionState().conf().clone();
        // A session of a run gives up no decimal places; the text has the types of a session as Spark sets it up.
        conf.setConfString("spark.sql.decimalOperations.allowPrecisionLoss", "true");
        return (Expression) org.apache.spark.sql.internal.SQLConf$.MODULE$.withExistingConf(
            conf, new Resolution(spark, text, columns));
    }

    public static class Resolution extends scala.runtime.AbstractFunction0 {
        private final org.apache.spark.sql.classic.SparkSession spark;
        private final String text;
        private final List columns;

        public Resolution(org.apache.spark.sql.classic.SparkSession spark, String text, List columns) {
            this.spark = spark;
            this.text = text;
            this.columns = columns;
        }

        public Object apply() {
          try {
            Expression parsed = (Expression) spark.sessionState().sqlParser().parseExpression(text)
                .transformUp(new OwnFunctions());
            LogicalPlan rows = new LocalRelation(seq(columns), seq(new ArrayList()), false, scala.Option$.MODULE$.empty());
            List output = new ArrayList();
            output.add(new org.apache.spark.sql.catalyst.expressions.Alias(
                parsed, "value", NamedExpression$.MODULE$.newExprId(), seq(new ArrayList()), scala.Option$.MODULE$.empty(), seq(new ArrayList())));
            LogicalPlan project = new Project(seq(output), rows);
            LogicalPlan analyzed = spark.sessionState().executePlan(
                project, org.apache.spark.sql.execution.CommandExecutionMode$.MODULE$.SKIP()).analyzed();
            return (Expression) ((Expression) ((Project) analyzed).projectList().apply(0)).children().apply(0);
          } catch (Exception unreadable) {
            return null;
          }
        }
    }
}
