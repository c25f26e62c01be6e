/** The style of pages for people, in light and in dark. */

const LIGHT =
  '--text:#16181d;--quiet:#565e6c;--page:#fff;--field:#fff;--line:#868e9b;--soft:#d9dde3;--accent:#1a56b8;--on-accent:#fff;' +
  '--danger:#b3261e;--problem:#fde4e1;--done:#dff3e4;--test:#ffe9a8'
const DARK =
  '--text:#e8eaee;--quiet:#a9b1bd;--page:#15171b;--field:#1e2127;--line:#7b8494;--soft:#363b44;--accent:#8fb8ff;--on-accent:#0b1a33;' +
  '--danger:#ff9d94;--problem:#5a1f1b;--done:#173f24;--test:#4d3d05'

/** Fields stand on lines of their own, and fields and buttons are high enough for a finger. */
export const PAGE_STYLE = [
  `:root{color-scheme:light dark;${LIGHT}}`,
  `@media(prefers-color-scheme:dark){:root{${DARK}}}`,
  'body{font:16px/1.5 system-ui,sans-serif;margin:0;color:var(--text);background:var(--page)}',
  'header,main{box-sizing:border-box;max-width:36rem;margin:0 auto;padding:0 1rem}',
  'header{display:flex;flex-wrap:wrap;align-items:center;gap:.3rem 1.2rem;padding:1rem 1rem .8rem;border-bottom:1px solid var(--soft)}',
  'header strong{margin-right:auto}header button{margin:0;padding:.3rem .8rem;min-height:2.25rem}',
  'main{padding-bottom:4rem;overflow-wrap:anywhere}',
  'h1{font-size:1.7rem;line-height:1.25;margin:1.6rem 0 1rem}h2{font-size:1.2rem;margin:2.4rem 0 .4rem}',
  'a{color:var(--accent)}small{color:var(--quiet)}ul{padding-left:1.2rem}li{margin:.5rem 0}',
  'label{display:block;margin:.9rem 0}',
  'input,select{box-sizing:border-box;display:block;width:100%;min-height:2.75rem;margin-top:.25rem;padding:.5rem .7rem;font:inherit;' +
    'color:inherit;background:var(--field);border:1px solid var(--line);border-radius:.4rem}',
  'input[type=checkbox],input[type=radio]{display:inline;width:1.2rem;min-height:0;height:1.2rem;margin:0 .4rem 0 0;vertical-align:-.2rem;accent-color:var(--accent)}',
  'button{font:inherit;font-weight:600;min-height:2.75rem;margin:.8rem .6rem 0 0;padding:.5rem 1.2rem;color:var(--on-accent);' +
    'background:var(--accent);border:1px solid var(--accent);border-radius:.4rem;cursor:pointer;overflow-wrap:anywhere}',
  'button.plain{color:var(--accent);background:none}button.danger{color:var(--danger);background:none;border-color:var(--danger)}',
  'summary{cursor:pointer;margin:.9rem 0}',
  ':focus-visible{outline:3px solid var(--accent);outline-offset:2px}',
  '.test,.problem,.done{padding:.5rem .8rem;border-radius:.4rem}',
  '.test{background:var(--test)}.problem{background:var(--problem)}.done{background:var(--done)}',
].join('')
