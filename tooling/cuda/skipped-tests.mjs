import { existsSync, readFileSync } from 'node:fs';

const isRun = (status) => status === 'passed' || status === 'failed';

/**
 * The full names of the tests that a report of vitest (reporter json) says were not run; of no report none.
 */
export function skippedTests(report) {
  if (report === undefined || !existsSync(report)) return [];
  const { testResults } = JSON.parse(readFileSync(report, 'utf8'));
  const tests = testResults.flatMap(({ assertionResults }) => assertionResults);
  return tests.filter(({ status }) => !isRun(status)).map(({ fullName }) => fullName);
}
