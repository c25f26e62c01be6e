/** The word that stands for the service on the wire: `svc/<slug>`, `svc_live_…`, `Svc-Signature`. The one place. */
export const BRAND = 'svc'

/** The same in the names of HTTP headers of our own, such as `Svc-Signature`. */
export const HEADER_BRAND = 'Svc'
