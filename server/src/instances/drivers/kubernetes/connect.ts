/** The way to a cluster: who we are there, and requests that are bounded and repeated. */

import { existsSync } from 'node:fs'
import type { AppsV1Api, ConfigurationOptions, CoreV1Api, KubeConfig, NetworkingV1Api } from '@kubernetes/client-node'
import type { KubernetesDriverSettings } from '../../../catalog/offering.ts'
import type { TlsFetch } from '../../../infra/tlsFetch.ts'
import { doubledMs } from '../../../lib/backoff.ts'
import { type Clock, SECOND_MS } from '../../../lib/time.ts'
import { ClusterFailure, mayPass } from './clusterFailure.ts'
import { CLUSTER_CLIENT_MISSING, isClusterClientInstalled } from './install.ts'
import { pauseFor } from './pause.ts'
import { type ClusterSending, librarySending } from './send.ts'

/** Times that a request is sent at most. Each may be repeated: nothing is made or deleted twice. */
const SENT_MOST = 3

/** Between two of them; the runner asks again later in any case. */
const PAUSE_MS = 250
const PAUSE_MOST_MS = 5 * SECOND_MS

/** A service account of a pod. */
const OWN_TOKEN = '/var/run/secrets/kubernetes.io/serviceaccount/token'

export interface ClusterDependencies {
  readonly clock: Clock
  readonly fetch: TlsFetch
}

export interface MachineCluster {
  readonly core: CoreV1Api
  readonly apps: AppsV1Api
  readonly networking: NetworkingV1Api
  /** Asks once, and again where the failure may pass; each time within the time of the settings. */
  ask<T>(request: (options: ConfigurationOptions) => Promise<T>, signal: AbortSignal, contentType?: string): Promise<T>
  /** Asks once, for as long as the signal allows, and hands each line of the answer on as it comes. */
  follow(
    request: (options: ConfigurationOptions) => Promise<unknown>,
    signal: AbortSignal,
    onLine: (line: string) => void,
  ): Promise<void>
}

/** Opens the way to the cluster; nothing is asked yet. Throws, with what to do, where the kubeconfig or the client is missing or unfit. */
export async function connectCluster(
  settings: KubernetesDriverSettings,
  { clock, fetch }: ClusterDependencies,
): Promise<MachineCluster> {
  if (!(await isClusterClientInstalled())) throw new Error(CLUSTER_CLIENT_MISSING)
  // Loaded here: it takes some 60 MB of memory, and nothing else needs it.
  const client = await import('@kubernetes/client-node')
  const config = new client.KubeConfig()
  loadIdentity(config, settings)
  const options = (sending: ClusterSending): ConfigurationOptions => ({
    httpApi: librarySending(client, fetch, sending),
  })
  const once = async <T>(
    request: (options: ConfigurationOptions) => Promise<T>,
    signal: AbortSignal,
    contentType: string | undefined,
  ): Promise<T> => {
    const late = new AbortController()
    const cancel = clock.after(settings.timeoutMs, () => late.abort())
    const both = AbortSignal.any([signal, late.signal])
    const sending = contentType === undefined ? { signal: both } : { signal: both, contentType }
    try {
      return await request(options(sending))
    } catch (error) {
      signal.throwIfAborted()
      throw late.signal.aborted ? new ClusterFailure(0, 'the cluster took too long to answer') : error
    } finally {
      cancel()
    }
  }
  return {
    core: config.makeApiClient(client.CoreV1Api),
    apps: config.makeApiClient(client.AppsV1Api),
    networking: config.makeApiClient(client.NetworkingV1Api),
    async ask(request, signal, contentType) {
      for (let sent = 1; ; sent += 1) {
        try {
          return await once(request, signal, contentType)
        } catch (error) {
          if (sent >= SENT_MOST || !mayPass(error)) throw error
          const pauseMs = Math.max(doubledMs(PAUSE_MS, PAUSE_MOST_MS, sent), error.retryAfterMs)
          await pauseFor(clock, Math.min(pauseMs, PAUSE_MOST_MS), signal)
          signal.throwIfAborted()
        }
      }
    },
    async follow(request, signal, onLine) {
      await request(options({ signal, onLine }))
    },
  }
}

function loadIdentity(config: KubeConfig, { kubeconfig, context }: KubernetesDriverSettings): void {
  if (kubeconfig === null) {
    if (!existsSync(OWN_TOKEN)) {
      throw refused(
        "needs 'kubeconfig', the absolute path of one, since Tollgate does not run in a pod with a service account",
      )
    }
    config.loadFromCluster()
    return
  }
  try {
    config.loadFromFile(kubeconfig)
  } catch {
    // The words of the parser may quote the file.
    throw refused(`can't read the kubeconfig ${kubeconfig}: is it one, and may this user read it?`)
  }
  if (context !== null) config.setCurrentContext(context)
  const name = config.getCurrentContext()
  const cluster = config.getCurrentCluster()
  const user = config.getCurrentUser()
  if (cluster === null || user === null)
    throw refused(`finds no cluster and user for the context '${name}' in ${kubeconfig}`)
  const unfit = unfitWord(cluster, user)
  if (unfit !== null) throw refused(`takes a kubeconfig with ${unfit} (context '${name}' of ${kubeconfig})`)
}

type Current<T> = NonNullable<T>

function unfitWord(
  { server, skipTLSVerify, proxyUrl }: Current<ReturnType<KubeConfig['getCurrentCluster']>>,
  { exec, authProvider, username }: Current<ReturnType<KubeConfig['getCurrentUser']>>,
): string | null {
  if (!server.startsWith('https://') || server.includes('@')) return 'an https server, without user info'
  if (skipTLSVerify === true) return 'certificate-authority in place of insecure-skip-tls-verify'
  if (proxyUrl !== undefined) return 'no proxy-url'
  // A program would get our environment, with the secrets in it.
  if (
    exec !== undefined ||
    (authProvider !== undefined && authProvider.name !== 'tokenFile') ||
    username !== undefined
  ) {
    return 'a token, a tokenFile or a client certificate: no exec, auth-provider or password'
  }
  return null
}

function refused(words: string): Error {
  return new Error(`instances.driver: 'kubernetes' ${words}`)
}
