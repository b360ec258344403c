import { runStep } from './run-step.mjs';

/**
 * Parses the text that `readelf --dynamic --version-info --dyn-syms --wide` prints about a shared library:
 * the libraries that it needs, the paths where it looks for them, the versions of symbols that it needs
 * ('GLIBC_2.34'), and the names that it defines for others.
 */
export function parseDynamic(text) {
  const all = (pattern) => [...text.matchAll(pattern)].map(([, value]) => value);
  const needs = text.slice(text.indexOf('Version needs section'));
  const isVersioned = text.includes('Version needs section');
  return {
    needed: all(/\(NEEDED\)\s+Shared library: \[([^\]]+)\]/g),
    runPath: all(/\((?:RUNPATH|RPATH)\)\s+Library r(?:un)?path: \[([^\]]*)\]/g)[0],
    versions: isVersioned
      ? [...new Set([...needs.matchAll(/Name: (\S+)\s+Flags/g)].map(([, name]) => name))]
      : [],
    // looked for in whatever is loaded: symbols without the version of a library
    missing: all(/^\s*\d+: \w+\s+\S+\s+\w+\s+GLOBAL\s+DEFAULT\s+UND ([^\s@]+)$/gm),
    // leaves out undefined symbols (section UND), and the symbols that represent versions (absolute symbols)
    defined: all(
      /^\s*\d+: \w+\s+\S+\s+(?:FUNC|OBJECT|TLS|IFUNC)\s+(?:GLOBAL|WEAK|UNIQUE)\s+DEFAULT\s+\d+ ([^\s@]+)/gm,
    ),
  };
}

export function readDynamic(path) {
  return parseDynamic(runStep('readelf', ['--dynamic', '--version-info', '--dyn-syms', '--wide', path]));
}

/**
 * Returns true if a version of a library is above another version. Parts are compared as numbers: '2.4' is
 * below '2.34'.
 */
export function isAbove(version, limit) {
  const [parts, limits] = [version, limit].map((text) => text.split('.').map(Number));
  const at = parts.findIndex((part, index) => part !== (limits[index] ?? 0));
  return at >= 0 && parts[at] > (limits[at] ?? 0);
}
