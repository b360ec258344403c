import { runStep } from './run-step.mjs';

/**
 * Parses the output of `readelf --dynamic --version-info --dyn-syms --wide` for a shared library: the
 * libraries that it needs, the paths where it searches for them, the symbol versions that it needs
 * ('GLIBC_2.34'), and the names that it defines for other libraries.
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
    // undefined symbols without a library's version, which are searched for in all loaded libraries
    missing: all(/^\s*\d+: \w+\s+\S+\s+\w+\s+GLOBAL\s+DEFAULT\s+UND ([^\s@]+)$/gm),
    // undefined symbols (section UND) and symbols that represent versions (absolute symbols) are left out
    defined: all(
      /^\s*\d+: \w+\s+\S+\s+(?:FUNC|OBJECT|TLS|IFUNC)\s+(?:GLOBAL|WEAK|UNIQUE)\s+DEFAULT\s+\d+ ([^\s@]+)/gm,
    ),
  };
}

export function readDynamic(path) {
  return parseDynamic(runStep('readelf', ['--dynamic', '--version-info', '--dyn-syms', '--wide', path]));
}

/** Returns true if `version` is above `limit`. Parts are compared as numbers: '2.4' is below '2.34'. */
export function isAbove(version, limit) {
  const [parts, limits] = [version, limit].map((text) => text.split('.').map(Number));
  const at = parts.findIndex((part, index) => part !== (limits[index] ?? 0));
  return at >= 0 && parts[at] > (limits[at] ?? 0);
}
