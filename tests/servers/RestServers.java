import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import okhttp3.mockwebserver.Dispatcher;
import okhttp3.mockwebserver.MockResponse;
import okhttp3.mockwebserver.RecordedRequest;
import org.apache.paimon.catalog.FileSystemCatalog;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.catalog.TableMetadata;
import org.apache.paimon.rest.RESTCatalogServer;
import org.apache.paimon.rest.auth.AuthProvider;
import org.apache.paimon.rest.auth.BearTokenAuthProvider;
import org.apache.paimon.rest.responses.ConfigResponse;
import org.apache.paimon.schema.TableSchema;

/**
 * Servers of Paimon's own tests of its REST catalog, one for each warehouse. Two things are mended: its maps take one
 * request at a time, and a table that was renamed is said to lie where its files have gone.
 */
public class RestServers {

    public Object open(String directory, String warehouse, String token, Map more) throws Exception {
        Map defaults = new HashMap(more);
        defaults.put("prefix", "paimon");
        defaults.put("warehouse", warehouse);
        ConfigResponse config = new ConfigResponse(defaults, new HashMap());
        Server server = new Server(directory, new BearTokenAuthProvider(token), config, warehouse);
        server.start();
        return server;
    }

    /** The next commit is done and answered with status 500. */
    public void loseAnswerOfNextCommit() {
        RESTCatalogServer.commitSuccessThrowException = true;
    }

    public static class Server extends RESTCatalogServer {

        public Server(String directory, AuthProvider auth, ConfigResponse config, String warehouse) {
            super(directory, auth, config, warehouse);
        }

        public Dispatcher initDispatcher(AuthProvider auth) {
            return new OneByOne(super.initDispatcher(auth), this);
        }

        void movePaths() throws Exception {
            Map tables = (Map) field("tableMetadataStore");
            FileSystemCatalog catalog = (FileSystemCatalog) field("catalog");
            for (Iterator names = new ArrayList(tables.keySet()).iterator(); names.hasNext(); ) {
                String name = (String) names.next();
                TableMetadata table = (TableMetadata) tables.get(name);
                if (!table.isExternal()) {
                    Map options = new HashMap(table.schema().options());
                    options.put("path", catalog.getTableLocation(Identifier.fromString(name)).toString());
                    TableSchema schema = table.schema().copy(options);
                    tables.put(name, new TableMetadata(schema, false, table.uuid()));
                }
            }
        }

        private Object field(String name) throws Exception {
            Field found = RESTCatalogServer.class.getDeclaredField(name);
            found.setAccessible(true);
            return found.get(this);
        }
    }

    public static class OneByOne extends Dispatcher {

        private final Dispatcher inner;
        private final Server server;

        public OneByOne(Dispatcher inner, Server server) {
            this.inner = inner;
            this.server = server;
        }

        public MockResponse dispatch(RecordedRequest request) throws InterruptedException {
            synchronized (server) {
                MockResponse answer = inner.dispatch(request);
                if (request.getPath().endsWith("/tables/rename") && answer.getStatus().indexOf(" 200") > 0) {
                    try {
                        server.movePaths();
                    } catch (Exception failed) {
                        throw new RuntimeException(failed);
                    }
                }
                return answer;
            }
        }
    }
}
