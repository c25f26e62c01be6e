/** A real kube-apiserver with a real etcd, on free ports of this host, without nodes or controllers. */

import { type ChildProcess, spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { certificateFor } from '../certificate.ts'
import { freePort } from '../freePort.ts'
import { type ApiClient, apiClient } from './apiClient.ts'

/** Debian keeps servers where a normal user's PATH does not look. */
const PATH = `${process.env['PATH'] ?? ''}:/usr/local/sbin:/usr/sbin:/sbin`

const STARTS_WITHIN_MS = 120_000

export interface ClusterPrograms {
  readonly apiserver: string
  readonly etcd: string
}

/** The programs, or the sentence that says which is missing. */
export function findClusterPrograms(): ClusterPrograms | string {
  const apiserver = process.env['KUBE_APISERVER'] ?? Bun.which('kube-apiserver', { PATH })
  const etcd = process.env['ETCD'] ?? Bun.which('etcd', { PATH })
  if (apiserver !== null && etcd !== null && existsSync(apiserver) && existsSync(etcd)) return { apiserver, etcd }
  return 'There is no kube-apiserver with etcd: name them by KUBE_APISERVER and ETCD, or put them into the PATH.'
}

/** A request of the gateway to make or to delete an object of a machine, as the API answered it. */
export interface GatewayChange {
  readonly verb: 'create' | 'delete'
  readonly resource: string
  readonly name: string
  readonly status: number
}

export interface RealCluster {
  /** Everything is allowed to it. */
  readonly admin: ApiClient
  /** With the token of the gateway. */
  readonly gateway: ApiClient
  /** The kubeconfig of the gateway's service account, to which nothing is allowed until a role says so. */
  readonly kubeconfig: string
  /** Ends the API, and starts it again on the same port and the same etcd. */
  stopApi(): Promise<void>
  startApi(): Promise<void>
  /** The objects that the gateway has made and deleted since the start, by the audit log of the API. */
  changes(): Promise<GatewayChange[]>
  /** Has etcd forget all revisions before the latest. */
  compact(): Promise<void>
  /** Stops the process of the API where it stands, and has it go on. */
  freeze(): void
  thaw(): void
  stop(): Promise<void>
}

const GATEWAY_ACCOUNT = { namespace: 'tollgate', name: 'gateway' }

export async function startCluster(programs: ClusterPrograms): Promise<RealCluster> {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-cluster-'))
  const at = (name: string) => join(folder, name)
  const [etcdPort, peerPort, port] = [await freePort(), await freePort(), await freePort()]
  const { key, cert } = await certificateFor('localhost')
  const pem = generateKeyPairSync('rsa', { modulusLength: 2_048 }).privateKey.export({ type: 'pkcs8', format: 'pem' })
  const tokens = { admin: crypto.randomUUID(), gateway: crypto.randomUUID() }
  const account = `system:serviceaccount:${GATEWAY_ACCOUNT.namespace}:${GATEWAY_ACCOUNT.name}`
  await Promise.all([
    writeFile(at('tls.key'), key),
    writeFile(at('tls.crt'), cert),
    writeFile(at('accounts.key'), pem),
    writeFile(at('tokens.csv'), `${tokens.admin},admin,1,system:masters\n${tokens.gateway},${account},2\n`),
    writeFile(at('audit.json'), auditPolicy(account)),
    writeFile(at('kubeconfig'), kubeconfigText(`https://localhost:${port}`, cert, tokens.gateway)),
  ])
  const etcdUrl = `http://127.0.0.1:${etcdPort}`
  const peerUrl = `http://127.0.0.1:${peerPort}`
  const etcd = run(programs.etcd, [
    ...['--data-dir', at('etcd'), '--listen-client-urls', etcdUrl, '--advertise-client-urls', etcdUrl],
    ...['--listen-peer-urls', peerUrl, '--initial-advertise-peer-urls', peerUrl],
    ...['--initial-cluster', `default=${peerUrl}`, '--log-level', 'error'],
  ])
  const admin = apiClient(`https://localhost:${port}`, cert, tokens.admin)
  const args = [
    ...['--etcd-servers', etcdUrl, '--bind-address', '127.0.0.1', '--secure-port', String(port)],
    ...['--tls-cert-file', at('tls.crt'), '--tls-private-key-file', at('tls.key'), '--cert-dir', folder],
    ...['--authorization-mode', 'RBAC', '--token-auth-file', at('tokens.csv')],
    ...['--disable-admission-plugins', 'ServiceAccount', '--service-cluster-ip-range', '10.96.0.0/16'],
    ...['--service-account-issuer', 'https://cluster.example.com', '--service-account-key-file', at('accounts.key')],
    ...['--service-account-signing-key-file', at('accounts.key'), '--watch-cache=true'],
    ...['--audit-policy-file', at('audit.json'), '--audit-log-path', at('audit.log')],
  ]
  let api: ChildProcess | null = null
  const cluster: RealCluster = {
    admin,
    gateway: apiClient(`https://localhost:${port}`, cert, tokens.gateway),
    kubeconfig: at('kubeconfig'),
    async startApi() {
      api = run(programs.apiserver, args)
      const ended = new Promise<never>((_, reject) =>
        api?.on('exit', (code) => reject(new Error(`kube-apiserver ended with ${code}`))),
      )
      ended.catch(() => {})
      await Promise.race([ready(admin), ended])
    },
    async stopApi() {
      await end(api)
      api = null
    },
    changes: async () => changesOf(await readFile(at('audit.log'), 'utf8')),
    async compact() {
      const { header } = await etcdCall(etcdUrl, '/v3/kv/range', { key: 'AA==' })
      await etcdCall(etcdUrl, '/v3/kv/compaction', { revision: header.revision, physical: true })
    },
    freeze: () => void api?.kill('SIGSTOP'),
    thaw: () => void api?.kill('SIGCONT'),
    async stop() {
      await end(api)
      await end(etcd)
      await rm(folder, { recursive: true, force: true })
    },
  }
  await cluster.startApi()
  return cluster
}

async function etcdCall(url: string, path: string, body: object) {
  const answer = await fetch(`${url}${path}`, { method: 'POST', body: JSON.stringify(body) })
  if (!answer.ok) throw new Error(`etcd: ${answer.status} ${await answer.text()}`)
  return (await answer.json()) as { header: { revision: string } }
}

/** The API writes down what this user makes and deletes, once it is answered. */
function auditPolicy(user: string): string {
  const resources = [
    { group: 'apps', resources: ['deployments'] },
    { group: '', resources: ['services'] },
  ]
  return JSON.stringify({
    ...{ apiVersion: 'audit.k8s.io/v1', kind: 'Policy', omitStages: ['RequestReceived'] },
    rules: [{ level: 'Metadata', verbs: ['create', 'delete'], users: [user], resources }, { level: 'None' }],
  })
}

interface AuditedRequest {
  readonly verb: GatewayChange['verb']
  readonly objectRef: { readonly resource: string; readonly name: string }
  readonly responseStatus: { readonly code: number }
}

function changesOf(text: string): GatewayChange[] {
  const lines = text.split('\n').filter((line) => line !== '')
  return lines.map((line) => {
    const { verb, objectRef, responseStatus } = JSON.parse(line) as AuditedRequest
    return { verb, resource: objectRef.resource, name: objectRef.name, status: responseStatus.code }
  })
}

function kubeconfigText(server: string, cert: string, token: string): string {
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'gateway',
    clusters: [
      {
        name: 'cluster',
        cluster: { server, 'certificate-authority-data': Buffer.from(cert).toString('base64') },
      },
    ],
    users: [{ name: 'gateway', user: { token } }],
    contexts: [{ name: 'gateway', context: { cluster: 'cluster', user: 'gateway' } }],
  }
  // JSON is YAML.
  return JSON.stringify(config)
}

function run(path: string, args: readonly string[]): ChildProcess {
  return spawn(path, [...args], { stdio: process.env['KUBE_LOG'] === undefined ? 'ignore' : 'inherit' })
}

async function ready(admin: ApiClient): Promise<void> {
  const untilMs = performance.now() + STARTS_WITHIN_MS
  for (;;) {
    const status = await admin.status('GET', '/readyz').catch(() => 0)
    if (status === 200) return
    if (performance.now() > untilMs) throw new Error('kube-apiserver does not get ready')
    await Bun.sleep(100)
  }
}

async function end(child: ChildProcess | null): Promise<void> {
  if (child === null || child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGCONT')
  child.kill('SIGKILL')
  await ended
}
