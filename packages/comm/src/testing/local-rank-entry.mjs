// The program of a rank that `startLocalRanks` starts.
const own = new URL(import.meta.url);
// the sources are .mjs and .ts, the build is .js
const rest = own.pathname.endsWith('.mjs') ? './local-rank.ts' : './local-rank.js';
const { runLocalRank } = await import(new URL(rest, own).href);
await runLocalRank(JSON.parse(process.argv[2]));
