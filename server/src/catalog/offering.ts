/** The instances that the settings offer: drivers, GPU types and apps. */

/** A kind of machine. */
export interface GpuType {
  readonly name: string
  /** Of one GPU. */
  readonly vramGb: number
  /** The most GPUs of one instance. */
  readonly count: number
  /** The price of an hour of one GPU. */
  readonly gpuHourMicrocents: bigint
  /** The most disk of one instance. */
  readonly diskGbMax: number
  /** The disk of all its instances together; null: the driver has as much as it takes. */
  readonly diskGbTotal: number | null
}

/** A model that an app can be started with. */
export interface AppModel {
  readonly name: string
  /** The video memory that it needs. */
  readonly vramGb: number
}

/** A program that runs on an instance. */
export interface InstanceApp {
  readonly name: string
  /** The program of the app: an image, or a command with its arguments; on Kubernetes an image, and a command in it where there is one. */
  readonly image: string | null
  readonly command: readonly string[] | null
  /** The port at which the app answers. */
  readonly port: number
  /** True when the driver is to give it a terminal. */
  readonly terminal: boolean
  /** Video memory of all GPUs together that it needs at least. */
  readonly vramGbMin: number
  /** Empty: it takes no model. */
  readonly models: readonly AppModel[]
}

/** The operator's executable, which is asked in JSON. */
export interface CommandDriverSettings {
  readonly kind: 'command'
  /** Absolute. */
  readonly path: string
  /** An answer that takes longer counts as none. */
  readonly timeoutMs: number
}

/** Apps as processes of this host. */
export interface ProcessDriverSettings {
  readonly kind: 'process'
  /** Absolute. Each machine has a folder in it. */
  readonly directory: string
  /** The first of as many user ids as there may be machines, which nobody else on this host has. */
  readonly firstUid: number
  /** Machines at once on this host. */
  readonly machinesMost: number
  /** Bounds of one machine. */
  readonly memoryBytes: number
  /** Processors; a part of one, too. */
  readonly cpus: number
  /** Processes and threads. */
  readonly tasksMost: number
}

/** How a cluster finds machines with a GPU type. */
export interface ClusterGpu {
  /** Of the settings' `gpu_types`. */
  readonly gpuType: string
  /** The extended resource that a pod asks for, one for each GPU. */
  readonly resource: string
  /** Labels of the nodes that have such GPUs. */
  readonly nodes: Readonly<Record<string, string>>
  /** Of a machine with one GPU; another has a multiple. */
  readonly cpus: number
  readonly memoryMb: number
}

/** Apps as deployments of a Kubernetes cluster. */
export interface KubernetesDriverSettings {
  readonly kind: 'kubernetes'
  /** Absolute; null: the service account of the pod that the gateway runs in. */
  readonly kubeconfig: string | null
  /** Of the kubeconfig; null: its current one. */
  readonly context: string | null
  /** Before the id of an organization, in the name of its namespace. */
  readonly namespacePrefix: string
  /** Namespaces whose pods reach the apps. */
  readonly reachedFrom: readonly string[]
  /** True when apps reach public addresses. */
  readonly internet: boolean
  /** An answer of the cluster that takes longer counts as none. */
  readonly timeoutMs: number
  /** The quota of a namespace: pods, and GPUs of each resource. */
  readonly podsMost: number
  readonly gpusMost: number
  readonly gpus: readonly ClusterGpu[]
}

export type InstanceDriverSettings = CommandDriverSettings | ProcessDriverSettings | KubernetesDriverSettings

/** The port at which apps answer, each at a host of its own. */
export interface AccessSettings {
  /** Behind the id of an instance, as URLs have it: a name, and a port where that is not the usual one. In lower case. */
  readonly host: string
  /** True when callers reach it by TLS, which a proxy before this process has. */
  readonly isSecure: boolean
  /** Where this process listens. 0: any free port. */
  readonly port: number
}

/** Of instances. */
export interface InstanceSettings {
  /** Null: apps are reached by their driver's own URLs. */
  readonly access: AccessSettings | null
  readonly driver: InstanceDriverSettings
  /** The time that the money held for an instance covers. */
  readonly coverSeconds: number
  /** An instance that does not run after this time has failed. */
  readonly createTimeoutMs: number
  /** Live instances of an organization. */
  readonly liveMost: number
  readonly gpuTypes: readonly GpuType[]
  readonly apps: readonly InstanceApp[]
}
