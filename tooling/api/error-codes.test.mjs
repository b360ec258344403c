import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { root } from '../bootstrap/bootstrap.mjs';
import { errorCodes, errorCodesPage } from './error-codes.mjs';

let repository;
beforeEach(() => {
  repository = mkdtempSync(join(tmpdir(), 'mtl-codes-'));
});
afterEach(() => rmSync(repository, { recursive: true, force: true }));

const write = (path, text) => {
  mkdirSync(dirname(join(repository, path)), { recursive: true });
  writeFileSync(join(repository, path), text);
};

it('lists the errors of sources by package, code and class, with values by name', () => {
  write(
    'packages/units/src/read.ts',
    [
      "throw new DataError('MTL_UNIT', 'no unit');",
      "throw new DataError('MTL_UNIT', `$\u007bunit.name} is no unit, of $\u007blist.join()}`);",
      "throw new UsageError('MTL_UNIT', message);",
      "class Late extends TrainingError { constructor() { super('MTL_LATE', 'too late'); } }",
      "const { exists = 'MTL_EXISTS' } = target; this.fail(what, 'MTL_FAILED');",
      "process.emitWarning(text, { code: late ? 'MTL_WARNING' : 'MTL_UNIT' });",
      "if (code === 'MTL_OTHER') list.push(new Set('MTL_SET')[0], env.MTL_VARIABLE);",
    ].join('\n'),
  );
  write('packages/units/src/read.test.ts', "throw new DataError('MTL_TESTED', 'no unit');");
  write('packages/units/src/testing/read.ts', "throw new DataError('MTL_TESTED', 'no unit');");
  expect(errorCodes(repository)).toEqual([
    { package: '@mtl/units', code: 'MTL_EXISTS', className: '', messages: [] },
    { package: '@mtl/units', code: 'MTL_FAILED', className: '', messages: [] },
    { package: '@mtl/units', code: 'MTL_LATE', className: 'TrainingError', messages: ['too late'] },
    {
      package: '@mtl/units',
      code: 'MTL_UNIT',
      className: 'DataError',
      messages: ['no unit', '<name> is no unit, of ...'],
    },
    { package: '@mtl/units', code: 'MTL_UNIT', className: 'UsageError', messages: [] },
    { package: '@mtl/units', code: 'MTL_WARNING', className: '', messages: [] },
  ]);
});

it('lists codes of native sources, formats of several literals in one', () => {
  write(
    'packages/comm/native/a/store.cc',
    'return error_status("MTL_STORE", "%s: lost after %lld "\n    "seconds", name, 1);\nfail("MTL_LATE", first, "late " + who);',
  );
  write('packages/comm/native/tests/store_test.cc', 'return error_status("MTL_TESTED", "x");');
  const errors = errorCodes(repository);
  expect(errors).toEqual([
    { package: '@mtl/comm', code: 'MTL_LATE', className: 'CommunicationError', messages: ['late '] },
    {
      package: '@mtl/comm',
      code: 'MTL_STORE',
      className: 'CommunicationError',
      messages: ['...: lost after ... seconds'],
    },
  ]);
  expect(errorCodesPage(errors)).toMatch(
    /## @mtl\/comm\n\n- `MTL_LATE` \(`CommunicationError`\)\n {2}- `late`\n- `MTL_STORE` /,
  );
});

it('finds the errors of this repository', () => {
  const errors = errorCodes(root);
  const find = (name, code) => errors.find((each) => each.package === name && each.code === code);
  expect(find('@mtl/pipeline', 'MTL_SCHEDULE_NAME').messages).toEqual(['unknown schedule <name>']);
  expect(find('@mtl/kernels', 'MTL_SHAPE').className).toBe('KernelError');
  expect(new Set(errors.map((each) => each.package)).size).toBeGreaterThan(15);
});
