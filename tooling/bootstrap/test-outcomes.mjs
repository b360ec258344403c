import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';

/**
 * The names of the files next to a package's JSON report, to which native test programs and tests of ranks
 * add notes.
 */
const noteNames = {
  engines: 'engines-used.txt',
  instructionSets: 'instruction-sets.txt',
  skipped: 'skipped.txt',
  failed: 'failed.txt',
};

const readLines = (file) => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []);

/** Appends the first line of an error to the name of a test, for readers who have only the log of a run. */
function withReason(name, [message = '']) {
  const [line] = stripVTControlCharacters(message).trim().split('\n');
  return line === '' ? name : `${name}\n    ${line.slice(0, 300)}`;
}

/**
 * Accesses the test results of all packages, apps and the tooling in their `build` folders. `clear` removes
 * the results of an earlier run. `read` counts passed tests. It lists, as `path: name`, failed tests with
 * their errors, skipped tests, and tests with the tag `whole` that this run left out. It also lists, by
 * folder, the communication engines that ranks used and the instruction sets whose kernels ran.
 */
export function testOutcomes(root) {
  const folders = [
    ...['packages', 'apps'].flatMap((group) =>
      readdirSync(join(root, group)).map((name) => join(root, group, name)),
    ),
    join(root, 'tooling'),
  ];
  const locateReport = (folder) => join(folder, 'build', 'test-results.json');
  const locateNote = (folder, kind) => join(folder, 'build', noteNames[kind]);

  function clear() {
    for (const folder of folders) {
      const notes = Object.keys(noteNames).map((kind) => locateNote(folder, kind));
      for (const file of [locateReport(folder), ...notes]) rmSync(file, { force: true });
    }
  }

  function read() {
    const outcomes = { numPassed: 0, failed: [], skipped: [], left: [], engines: {}, instructionSets: [] };
    for (const folder of folders) {
      if (existsSync(locateReport(folder)))
        addReport(outcomes, JSON.parse(readFileSync(locateReport(folder), 'utf8')));
      for (const kind of ['skipped', 'failed']) {
        // a program that runs under several sanitizers skips the same test under each sanitizer
        const lines = new Set(readLines(locateNote(folder, kind)));
        outcomes[kind].push(...[...lines].map((line) => `${relative(root, folder)}: ${line}`));
      }
      outcomes.instructionSets.push(...readLines(locateNote(folder, 'instructionSets')));
      outcomes.engines[relative(root, folder)] = readLines(locateNote(folder, 'engines'));
    }
    return outcomes;
  }

  function addReport(outcomes, report) {
    const { failed, skipped, left } = outcomes;
    for (const file of report.testResults) {
      const name = relative(root, file.name);
      const hasFailedTest = file.assertionResults.some(({ status }) => status === 'failed');
      const endedOutsideOfTests = file.status === 'failed' && !hasFailedTest;
      if (endedOutsideOfTests) failed.push(withReason(name, [file.message]));
      for (const { status, fullName, tags = [], failureMessages = [] } of file.assertionResults) {
        if (status === 'passed') outcomes.numPassed += 1;
        else if (status === 'failed') failed.push(withReason(`${name}: ${fullName}`, failureMessages));
        // an import or a hook has failed, so no test in this file ran
        else if (endedOutsideOfTests) continue;
        else (tags.includes('whole') ? left : skipped).push(`${name}: ${fullName}`);
      }
    }
  }

  return { clear, read };
}
