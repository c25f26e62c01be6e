/** Requests of the driver `kubernetes` that change something, each by its method and what it is about. */
export type ClusterRequest =
  | `POST ${'namespaces' | 'services' | 'deployments'}`
  | `PATCH ${'networkpolicies' | 'resourcequotas'}`
  | `DELETE ${'services' | 'deployments'}`

/** The method of a request, and the kind of objects that its path ends with or, where it names one, ends before. */
export function clusterRequest(method: string, url: string): string {
  const kinds = 'namespaces|networkpolicies|resourcequotas|services|deployments|pods'
  const [, kind = ''] = new RegExp(`/(${kinds})(?:/[^/]+)?$`).exec(new URL(url).pathname) ?? []
  return `${method} ${kind}`
}
