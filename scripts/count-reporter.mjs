/**
 * vitest reporter that ends the output with one plain line for programs to read:
 * "12 passed, 0 failed", with ", 3 skipped" when tests were skipped. A test file that cannot be
 * loaded and an error outside of any test count as failures too, as they fail the run.
 */
export default class CountReporter {
  onTestRunEnd(testModules, unhandledErrors) {
    const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    for (const module of testModules) {
      counts.failed += module.errors().length;
      for (const test of module.children.allTests()) counts[countedAs(test)]++;
      for (const suite of module.children.allSuites()) counts.failed += suite.errors().length;
    }
    const skipped = counts.skipped === 0 ? '' : `, ${counts.skipped} skipped`;
    // The summary of the default reporter is written by then; stderr could overtake stdout.
    process.stdout.write(`\n${counts.passed} passed, ${counts.failed} failed${skipped}\n`);
  }
}

/** A test that never ran because its file or suite broke down is `pending`: it did not pass. */
function countedAs(test) {
  const { state } = test.result();
  return state === 'pending' ? 'failed' : state;
}
