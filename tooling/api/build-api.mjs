#!/usr/bin/env node
/**
 * npm run dev -- api: writes the API reference of all packages as HTML to tooling/build/api. It contains
 * their docstrings and a page of all error codes. Every warning of TypeDoc is a failure, for example an
 * @param for a parameter that does not exist, an unknown tag, or a broken link. This program does not check
 *   types; `npm run typecheck` does.
 * npm run dev -- api [--out DIRECTORY]
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

import * as typedoc from 'typedoc';
import { root } from '../bootstrap/bootstrap.mjs';
import { errorCodes, errorCodesPage } from './error-codes.mjs';

/**
 * Returns every entry point of every package, as its source file and the name under which users import it.
 */
export function entryPoints(repository) {
  const folders = readdirSync(join(repository, 'packages')).map((name) => join(repository, 'packages', name));
  return folders.flatMap((folder) => {
    const { name, exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    return Object.entries(exports)
      .map(([path, conditions]) => ({ folder, path, source: conditions['@mtl/source'] }))
      .filter(({ source }) => source?.endsWith('.ts'))
      .map(({ path, source }) => ({ folder, name: join(name, path), source: resolve(folder, source) }));
  });
}

/**
 * Returns a README with plain text instead of links to files in the repository, because the reference does
 * not contain these files.
 */
function withoutRelativeLinks(markdown) {
  return markdown.replaceAll(/\[([^\]]+)\]\((?!https?:|#)[^)]*\)/g, '$1');
}

/** Returns a package's README in the form that TypeDoc shows on the package's page. */
function parseReadme(app, folder) {
  const text = withoutRelativeLinks(readFileSync(join(folder, 'README.md'), 'utf8'));
  const file = new typedoc.MinimalSourceFile(text, join(folder, 'README.md'));
  return app.converter.parseRawComment(file, app.files).content;
}

/**
 * Writes the reference into `out`.
 *
 * @returns true if TypeDoc printed no warning
 */
export async function buildApi({ repository, out, tsconfig, logLevel = 'Warn' }) {
  const points = entryPoints(repository);
  const pages = mkdtempSync(join(tmpdir(), 'mtl-api-pages-'));
  writeFileSync(join(pages, 'error-codes.md'), errorCodesPage(errorCodes(repository)));
  const app = await typedoc.Application.bootstrap({
    name: '@mtl',
    entryPoints: points.map(({ source }) => source),
    tsconfig,
    skipErrorChecking: true,
    readme: 'none',
    projectDocuments: [join(pages, 'error-codes.md')],
    disableGit: true,
    sourceLinkTemplate: '{path}#L{line}',
    basePath: repository,
    hideGenerator: true,
    highlightLanguages: [...typedoc.OptionDefaults.highlightLanguages, 'csv', 'text', 'sh', 'yaml'],
    logLevel: typedoc.LogLevel[logLevel],
  });
  const project = await app.convert();
  rmSync(pages, { recursive: true });
  if (project === undefined) return false;
  for (const module of project.getChildrenByKind(typedoc.ReflectionKind.Module)) {
    const [source] = module.sources;
    const point = points.find((entry) => entry.source === source.fullFileName);
    module.name = point.name;
    if (point.source.endsWith('/src/index.ts')) module.readme = parseReadme(app, point.folder);
  }
  app.validate(project);
  await app.generateDocs(project, out);
  return !app.logger.hasErrors() && !app.logger.hasWarnings();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { out: { type: 'string' } } });
  const out = resolve(values.out ?? join(root, 'tooling/build/api'));
  const tsconfig = join(root, 'tsconfig.json');
  if (!(await buildApi({ repository: root, out, tsconfig }))) process.exit(1);
  console.log(`API reference: ${pathToFileURL(join(out, 'index.html'))}`);
}
