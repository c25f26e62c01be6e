/**
 * The part of @kubernetes/client-node that this folder uses. The package itself is installed on demand (`install.ts`), and the check
 * of types must do without it. Objects are read by schemas of ours (`clusterObjects.ts`).
 */
declare module '@kubernetes/client-node' {
  export interface RequestContext {
    getUrl(): string
    getHttpMethod(): string
    getHeaders(): Record<string, string>
    getBody(): string | undefined
    getAgent(): { readonly options: Readonly<Record<string, unknown>> } | undefined
  }

  export class ResponseContext {
    constructor(
      status: number,
      headers: Record<string, string>,
      body: { text(): Promise<string>; binary(): Promise<Buffer> },
    )
  }

  export interface HttpLibrary {
    readonly opaque: unique symbol
  }

  export function wrapHttpLibrary(library: { send(request: RequestContext): Promise<ResponseContext> }): HttpLibrary

  /** Of one request: sends it by a library of the caller's. */
  export interface ConfigurationOptions {
    readonly httpApi: HttpLibrary
  }

  export class KubeConfig {
    loadFromFile(file: string): void
    loadFromCluster(): void
    setCurrentContext(context: string): void
    getContextObject(name: string): object | null
    getCurrentContext(): string
    getCurrentCluster(): {
      readonly server: string
      readonly skipTLSVerify?: boolean
      readonly proxyUrl?: string
    } | null
    getCurrentUser(): {
      readonly exec?: unknown
      readonly authProvider?: { readonly name?: string }
      readonly username?: string
    } | null
    makeApiClient<T>(api: new (configuration: never) => T): T
  }

  interface Created {
    readonly body: object
    readonly fieldValidation?: 'Strict'
  }
  interface Applied extends Created {
    readonly name: string
    readonly namespace: string
    readonly fieldManager: string
    readonly force: boolean
  }
  interface Named {
    readonly name: string
    readonly namespace: string
  }
  interface Listed {
    readonly labelSelector: string
    readonly limit?: number
    readonly _continue?: string
    readonly resourceVersion?: string
    readonly watch?: boolean
    readonly allowWatchBookmarks?: boolean
    readonly timeoutSeconds?: number
  }
  type Answered = Promise<unknown>

  export class CoreV1Api {
    constructor(configuration: never)
    readNamespace(asked: { readonly name: string }, options: ConfigurationOptions): Answered
    createNamespace(asked: Created, options: ConfigurationOptions): Answered
    patchNamespacedResourceQuota(asked: Applied, options: ConfigurationOptions): Answered
    createNamespacedService(asked: Created & { readonly namespace: string }, options: ConfigurationOptions): Answered
    readNamespacedService(asked: Named, options: ConfigurationOptions): Answered
    deleteNamespacedService(asked: Named, options: ConfigurationOptions): Answered
    listNamespacedPod(asked: Listed & { readonly namespace: string }, options: ConfigurationOptions): Answered
    listPodForAllNamespaces(asked: Listed, options: ConfigurationOptions): Answered
    listServiceForAllNamespaces(asked: Listed, options: ConfigurationOptions): Answered
  }

  export class AppsV1Api {
    constructor(configuration: never)
    createNamespacedDeployment(asked: Created & { readonly namespace: string }, options: ConfigurationOptions): Answered
    readNamespacedDeployment(asked: Named, options: ConfigurationOptions): Answered
    deleteNamespacedDeployment(
      asked: Named & { readonly propagationPolicy: 'Foreground' },
      options: ConfigurationOptions,
    ): Answered
    listDeploymentForAllNamespaces(asked: Listed, options: ConfigurationOptions): Answered
  }

  export class NetworkingV1Api {
    constructor(configuration: never)
    patchNamespacedNetworkPolicy(asked: Applied, options: ConfigurationOptions): Answered
  }
}
