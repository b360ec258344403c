import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from '../packaging/packed-packages.mjs';
import { copyRepository } from '../packaging/repository-copy.mjs';

describe('the gates of the repository', () => {
  let copy;
  beforeAll(() => {
    copy = copyRepository();
  });
  afterAll(() => rmSync(copy.directory, { recursive: true, force: true }));

  const inCopy = (command, ...args) => run(command, args, { cwd: copy.directory });
  /** Runs `body` while a file in the copy has changed content. */
  const planted = (path, change, body) => {
    const file = join(copy.directory, path);
    const before = readFileSync(file, 'utf8');
    writeFileSync(file, change(before));
    try {
      body();
    } finally {
      writeFileSync(file, before);
    }
  };
  const addDependency = (name) => (text) => {
    const manifest = JSON.parse(text);
    manifest.dependencies[name] = 'workspace:*';
    return JSON.stringify(manifest);
  };

  const boundaries = () => inCopy(process.execPath, 'tooling/checks/boundaries.mjs');

  it('boundaries pass, and fail on a package that imports upwards, also with the dependency declared', () => {
    const clean = boundaries();
    expect(clean.status, clean.output).toBe(0);
    const importTrainer = (text) => `${text}\nexport { Trainer } from '@mtl/trainer';\n`;
    planted('packages/pipeline/src/index.ts', importTrainer, () => {
      const undeclared = boundaries();
      expect(undeclared.status).not.toBe(0);
      expect(undeclared.output).toMatch(
        /^packages\/pipeline\/src\/index\.ts:\d+: packages\/pipeline\/package\.json does not list @mtl\/trainer$/m,
      );
      planted('packages/pipeline/package.json', addDependency('@mtl/trainer'), () => {
        const declared = boundaries();
        expect(declared.status).not.toBe(0);
        expect(declared.output).toContain('@mtl/trainer is no lower layer of @mtl/pipeline');
      });
    });
  });

  it('boundaries fail on an import of another package by path, and on a package that no layer names', () => {
    const reachOver = (text) => `${text}\nexport { MtlError } from '../../errors/src/index.js';\n`;
    planted('packages/data/src/index.ts', reachOver, () => {
      const { status, output } = boundaries();
      expect(status).not.toBe(0);
      expect(output).toContain('../../errors/src/index.js is a file of another package');
    });
    const rename = (text) => text.replace('"@mtl/data"', '"@mtl/other"');
    planted('packages/data/package.json', rename, () => {
      expect(boundaries().output).toContain('has no entry "other"');
    });
  });

  it("boundaries fail on one more import of Node's modules in a package that is meant for pages", () => {
    const readFile = (text) => `import 'node:fs';\n${text}`;
    planted('packages/models/src/index.ts', readFile, () => {
      const { status, output } = boundaries();
      expect(status).not.toBe(0);
      expect(output).toContain("packages/models: 1 imports of Node's modules, expected 0");
      expect(output).toContain('packages/models/src/index.ts (node:fs)');
    });
  });

  it('lint passes on a package, and fails on an unused variable and on unformatted code', () => {
    const lint = () => inCopy('biome', 'check', 'packages/errors');
    expect(lint().status, lint().output).toBe(0);
    const unused = (text) => `${text}\nconst unused = 1;\n`;
    planted('packages/errors/src/nearest-names.ts', unused, () => {
      expect(lint().status).not.toBe(0);
      expect(lint().output).toContain('noUnusedVariables');
    });
    planted(
      'packages/errors/src/nearest-names.ts',
      (text) => `${text}\nexport   const a = "x"\n`,
      () => {
        expect(lint().status).not.toBe(0);
      },
    );
  });

  it('lint fails on a circle of imports, also where only types are imported', () => {
    const lint = () => inCopy('biome', 'lint', 'packages/errors');
    const importBack = (text) =>
      `import type { MtlError } from './mtl-error.js';\n${text}\nexport type Circle = MtlError;\n`;
    const importForth = (text) =>
      `import type { Circle } from './nearest-names.js';\n${text}\nexport type Back = Circle;\n`;
    planted('packages/errors/src/nearest-names.ts', importBack, () => {
      expect(lint().status, lint().output).toBe(0);
      planted('packages/errors/src/mtl-error.ts', importForth, () => {
        expect(lint().status).not.toBe(0);
        expect(lint().output).toContain('noImportCycles');
      });
    });
  });

  it('results that npm test keeps count for the sources that tests read, and for no others', () => {
    const hashes = () => {
      const { tasks } = JSON.parse(inCopy('turbo', 'run', 'test', '--dry=json').stdout);
      return new Map(tasks.filter(({ task }) => task === 'test').map((each) => [each.package, each]));
    };
    const before = hashes();
    expect(before.get('@mtl/tooling').resolvedTaskDefinition.cache).toBe(false); // these tests read all files
    const outdatedBy = (path) => {
      let outdated;
      planted(
        path,
        (text) => `${text}\n`,
        () => {
          const after = hashes();
          outdated = [...before.keys()].filter((name) => after.get(name).hash !== before.get(name).hash);
        },
      );
      return outdated.filter((name) => name !== '@mtl/tooling');
    };
    // the apps start the command of @mtl/cli although their package.json does not list @mtl/cli
    expect(outdatedBy('packages/cli/src/main.ts')).toEqual(['@mtl/bert-train', '@mtl/cli', '@mtl/gpt-train']);
    const aboveData = outdatedBy('packages/data/src/index.ts');
    expect(aboveData).toEqual(expect.arrayContaining(['@mtl/data', '@mtl/runs', '@mtl/gpt-train']));
    expect(aboveData).not.toContain('@mtl/pipeline');
    expect(outdatedBy('tooling/vitest/preset.mjs')).toEqual(
      expect.arrayContaining(['@mtl/errors', '@mtl/cli']),
    );
  });

  it('the house rules pass, and fail on a file of more than 1,000 lines and on a package without README', () => {
    const check = () => inCopy(process.execPath, 'tooling/checks/check-repository.mjs');
    const clean = check();
    expect(clean.status, clean.output).toBe(0);
    planted(
      'packages/errors/src/nearest-names.ts',
      (text) => `${text}${'\n'.repeat(1000)}`,
      () => {
        expect(check().output).toContain('packages/errors/src/nearest-names.ts: ');
        expect(check().status).not.toBe(0);
      },
    );
    copy.git('rm', '--quiet', '--cached', 'packages/errors/README.md');
    rmSync(join(copy.directory, 'packages/errors/README.md'));
    expect(check().output).toContain('packages/errors: README.md is missing');
    // the test takes seconds on two free cores, but minutes on busy cores
  }, 600_000);
});
