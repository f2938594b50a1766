/**
 * A test runner for files that share a process, and the modules of `src` in it: importing those takes longer than most
 * tests. Modules of `test` are imported again by each file, since their hooks belong to the file that imports them.
 */
import { fileURLToPath } from 'node:url';
import { TestRunner } from 'vitest';

const tests = fileURLToPath(new URL('..', import.meta.url)).replaceAll('\\', '/');

export default class SharedSourcesRunner extends TestRunner {
  importFile(path, source) {
    const { evaluatedModules } = this.workerState;
    for (const module of evaluatedModules.idToModuleMap.values()) {
      if (module.id.includes(tests)) evaluatedModules.invalidateModule(module);
    }
    return super.importFile(path, source);
  }
}
