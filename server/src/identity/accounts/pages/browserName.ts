/** By a part of the user agent. The first that is found counts: most browsers name those that came before them, too. */
const BROWSERS: readonly (readonly [RegExp, string])[] = [
  [/\bEdg(?:e|A|iOS)?\//, 'Edge'],
  [/\b(?:OPR|Opera|OPiOS)\//, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\bVivaldi\//, 'Vivaldi'],
  [/\b(?:Firefox|FxiOS)\//, 'Firefox'],
  [/\b(?:HeadlessChrome|Chrome|Chromium|CriOS)\//, 'Chrome'],
  [/\bVersion\/[\d.]+.*\bSafari\//, 'Safari'],
]

const SYSTEMS: readonly (readonly [RegExp, string])[] = [
  [/\bAndroid\b/, 'Android'],
  [/\biPhone\b/, 'an iPhone'],
  [/\biPad\b/, 'an iPad'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b|\bMacintosh\b/, 'macOS'],
  [/\bLinux\b|\bX11\b/, 'Linux'],
]

const CHARACTERS_MOST = 60

/**
 * Returns how people call a browser, such as `Firefox on Linux`, by the user agent that it sent; of one that is not known the beginning of
 * that text. It says what the browser said: it proves nothing.
 */
export function browserName(userAgent: string | null): string {
  const text = userAgent ?? ''
  const find = (named: typeof BROWSERS) => named.find(([pattern]) => pattern.test(text))?.[1]
  const browser = find(BROWSERS)
  if (browser === undefined) return text.trim().slice(0, CHARACTERS_MOST) || 'Unknown browser'
  const system = find(SYSTEMS)
  return system === undefined ? browser : `${browser} on ${system}`
}
