/** The word that stands for the service on the wire: `svc/<slug>`, `svc_live_…`, `Svc-Signature`. The one place. */
export const BRAND = 'svc'
