import { catalogRoutes } from './routes.ts'
import { type LiveCatalogOptions, startLiveCatalog } from './watch.ts'

/** Opens the room of the catalog: reads what is offered, and follows the settings file. Rejects when `beforeActivate` does. */
export async function openCatalog(options: LiveCatalogOptions) {
  const live = await startLiveCatalog(options)
  const current = () => live.current()
  return { live, current, routes: catalogRoutes({ clock: options.clock, catalog: current }), close: () => live.close() }
}
