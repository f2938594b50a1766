/**
 * Judges globals that torch's restricted loader rejects: those that rebuild data, those that run code, and the rest.
 */

import type { Advice } from '../../../errors/advice.js';
import { loadsInnerFile } from '../../pickle/inner-files.js';
import { allowedGlobal, currentModule } from './globals.js';
import { isRebuilder } from './rebuilders.js';

const STANDARD_MODULES: ReadonlySet<string> = new Set(
  `
  BaseHTTPServer Bastion CGIHTTPServer ConfigParser Cookie Dialog DocXMLRPCServer FileDialog HTMLParser
  MimeWriter Queue ScrolledText SimpleDialog SimpleHTTPServer SimpleXMLRPCServer SocketServer StringIO Tix
  Tkconstants Tkdnd Tkinter UserDict UserList UserString __builtin__ __future__ _abc _abcoll _aix_support
  _android_support _apple_support _ast _asyncio _bisect _blake2 _bootlocale _bootsubprocess _bz2 _codecs
  _codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw _collections _collections_abc
  _colorize _compat_pickle _compression _contextvars _crypt _csv _ctypes _ctypes_test _curses _curses_panel
  _datetime _dbm _decimal _dummy_thread _dummy_threading _elementtree _frozen_importlib
  _frozen_importlib_external _functools _gdbm _hashlib _heapq _hmac _imp _interpchannels _interpqueues
  _interpreters _io _ios_support _json _locale _lsprof _lzma _markupbase _md5 _msi _multibytecodec
  _multiprocessing _opcode _opcode_metadata _operator _osx_support _overlapped _pickle _posixshmem
  _posixsubprocess _py_abc _py_warnings _pydatetime _pydecimal _pyio _pylong _queue _random _remote_debugging
  _scproxy _sha1 _sha2 _sha256 _sha3 _sha512 _signal _sitebuiltins _socket _sqlite3 _sre _ssl _stat
  _statistics _string _strptime _struct _suggestions _symtable _sysconfig _testbuffer _testcapi _testclinic
  _testinternalcapi _testmultiphase _thread _threading_local _tkinter _tokenize _tracemalloc _types _typing
  _uuid _warnings _weakref _weakrefset _winapi _winreg _xxinterpchannels _xxsubinterpreters _xxtestfuzz
  _zoneinfo _zstd abc aifc annotationlib antigravity anydbm argparse array ast asynchat asyncio asyncore
  atexit audioop base64 bdb binascii binhex bisect bsddb builtins bz2 cPickle cProfile cStringIO calendar cgi
  cgitb chunk cmath cmd code codecs codeop collections colorsys commands compileall compiler compression
  concurrent configparser contextlib contextvars cookielib copy copy_reg copyreg crypt csv ctypes curses
  dataclasses datetime dbhash dbm decimal difflib dircache dis distutils dl doctest dumbdbm dummy_thread
  dummy_threading email encodings ensurepip enum errno exceptions faulthandler fcntl filecmp fileinput fl
  fnmatch formatter fpformat fractions ftplib functools future_builtins gc gdbm genericpath getopt getpass
  gettext gl glob graphlib grp gzip hashlib heapq hmac hotshot html htmlentitydefs htmllib http httplib
  idlelib ihooks imaplib imghdr imp importlib imputil inspect io ipaddress itertools json keyword lib2to3
  linecache locale logging lzma macpath macurl2path mailbox mailcap markupbase marshal math md5 mimetools
  mimetypes mimify mmap modulefinder msilib msvcrt multifile multiprocessing netrc new nis nntplib nt ntpath
  nturl2path numbers opcode operator optparse os os2 os2emxpath ossaudiodev parser pathlib pdb pickle
  pickletools pipes pkgutil platform plistlib popen2 poplib posix posixfile posixpath pprint profile pstats
  pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri random re readline repr reprlib resource
  rexec rfc822 rlcompleter robotparser runpy sched secrets select selectors sets sgmllib sha shelve shlex
  shutil signal site smtpd smtplib sndhdr socket socketserver spwd sqlite3 sre sre_compile sre_constants
  sre_parse ssl stat statistics string stringold stringprep strop struct subprocess sunau symbol symtable sys
  sysconfig syslog tabnanny tarfile telnetlib tempfile termios test textwrap this thread threading time timeit
  timing tkColorChooser tkCommonDialog tkFileDialog tkFont tkMessageBox tkSimpleDialog tkinter toaiff token
  tokenize tomllib trace traceback tracemalloc ttk tty turtle turtledemo types typing unicodedata unittest
  urllib urllib2 urlparse user uu uuid venv warnings wave weakref webbrowser whichdb winreg winsound wsgiref
  xdrlib xml xmlrpc xmlrpclib xxlimited xxsubtype zipapp zipfile zipimport zlib zoneinfo
`
    .trim()
    .split(/\s+/),
);

/** Module and name of a class or function. */
interface GlobalNames {
  readonly module: string;
  readonly name: string;
}

/** Packages with known rebuilders: everything else in them is hostile. */
const EXAMINED_PACKAGES: ReadonlySet<string> = new Set(['torch', 'numpy', 'pandas', 'joblib']);

/** Packages for running code, loading pickles or fetching files. */
const RUNNING_PACKAGES: ReadonlySet<string> = new Set(
  (
    'IPython _pytest cffi cloudpickle dill execnet fabric invoke jsonpickle numexpr paramiko pexpect pip pkg_resources ' +
    'plumbum ptyprocess py pytest requests setuptools sh urllib3 wheel yaml'
  ).split(' '),
);

/** Functions that packages import from the standard library; those of modules have the names of the modules. */
const RUNNING_NAMES: ReadonlySet<string> = new Set(
  (
    'Popen attrgetter call check_call check_output compile delattr eval exec execfile getattr getoutput import_module ' +
    'methodcaller open popen run_module run_path setattr spawn system'
  ).split(' '),
);

/** Modules of the standard library that other packages import, under the names of classes and functions elsewhere. */
const COMMON_WORDS: ReadonlySet<string> = new Set(
  'array calendar code copy new parser profile queue random resource select sets statistics string symbol test trace types user'.split(
    ' ',
  ),
);

const MODULE = /^[\w-]+(\.[\w-]+)*$/;
const NAME = '^[\\p{ID_Start}_][\\p{ID_Continue}]*(\\.[\\p{ID_Start}_][\\p{ID_Continue}]*)*$';

/** The pattern for names. Created on first use: collecting all letters takes half a millisecond. */
let namePattern: RegExp | undefined;

/**
 * Whether a global runs code: everything in Python's standard library, torch, NumPy, pandas and joblib that is no
 * rebuilder of data, attributes of modules and methods by their path, and names that no package has.
 */
export function isHostileGlobal(module: string, name: string): boolean {
  const current = currentModule(module);
  if (allowedGlobal(module, name) !== undefined || isRebuilder(current, name)) return false;
  const [top = ''] = current.split('.');
  if (STANDARD_MODULES.has(top) || EXAMINED_PACKAGES.has(top) || RUNNING_PACKAGES.has(top)) {
    return true;
  }
  namePattern ??= new RegExp(NAME, 'u');
  return !MODULE.test(module) || !namePattern.test(name) || leadsElsewhere(name);
}

/** Whether a name in an unexamined package leads to another module, or into an object's internals. */
function leadsElsewhere(name: string): boolean {
  const parts = name.split('.');
  const last = parts.at(-1) as string;
  const isModule = STANDARD_MODULES.has(last) && !COMMON_WORDS.has(last);
  if (isModule || RUNNING_NAMES.has(last)) return true;
  // Picklers write paths of nested classes only.
  return parts.some(
    (part, i) => /^__.*__$/.test(part) || (i > 0 && !/^_*[A-Z]/.test(parts[i - 1] as string)),
  );
}

/** Explains a file that `pickle` wrote, whose storages are separate files. */
export const PLAIN_PICKLE = 'pickle wrote, and not torch.save';

/** Options that read a file in spite of its globals. */
const PLACEHOLDER: Advice = {
  option: 'unknownGlobals',
  value: 'placeholder',
  text: "with unknownGlobals: 'placeholder' they stay in extra() as data",
};

const WHOLE_MODULE: Advice = {
  ...PLACEHOLDER,
  text: "with unknownGlobals: 'placeholder' its tensors are read as state_dict() lists them",
};

/** What to do about forbidden globals. */
export interface Remedy {
  readonly text: string;
  /** The words of the text that name an option. */
  readonly advice: readonly Advice[];
}

/** Most packages that advice names, and the longest name. */
const SHOWN_PACKAGES = 5;
const SHOWN_PACKAGE_LENGTH = 60;

/**
 * Advice about the forbidden globals of a pickle; undefined if any is hostile, or without any. Recommends loading a
 * file only if all its globals rebuild data and `isScanned`: a scan of all its bytes found nothing else.
 */
export function adviceFor(
  globals: readonly GlobalNames[],
  isScanned: boolean = false,
): Remedy | undefined {
  const forbidden = globals.filter(({ module, name }) => allowedGlobal(module, name) === undefined);
  if (forbidden.length === 0) return undefined;
  if (forbidden.some(({ module, name }) => isHostileGlobal(module, name))) return undefined;
  const warning = unexaminedCode(forbidden);
  const isLoadable = isScanned && warning === undefined;
  const { text, advice } = remedyFor(forbidden, isLoadable);
  return { text: warning === undefined ? text : `${warning}; ${text}`, advice };
}

function remedyFor(forbidden: readonly GlobalNames[], isLoadable: boolean): Remedy {
  const scan = 'scanPickle lists what loading it would run';
  if (forbidden.some(({ module }) => module.startsWith('torch.nn.modules.'))) {
    const text = `it is a whole pickled module: ${WHOLE_MODULE.text}`;
    return { text, advice: [WHOLE_MODULE] };
  }
  if (forbidden.some(loadsInnerFile)) {
    const load = 'load it in Python, only if you trust it, and save it with torch.save';
    return { text: `it is a file that ${PLAIN_PICKLE}: ${isLoadable ? load : scan}`, advice: [] };
  }
  if (!forbidden.some(({ module }) => /^(numpy|joblib)\b/.test(module))) {
    return { text: PLACEHOLDER.text, advice: [PLACEHOLDER] };
  }
  const load = 'can be loaded there, only if you trust it, and saved by numpy.savez';
  const arrays = 'a pickle of NumPy arrays, as PaddlePaddle (.pdparams) and joblib write it,';
  const ofArrays = isLoadable ? `${arrays} ${load}` : `of ${arrays} ${scan}`;
  const text = `${ofArrays}; of NumPy values among torch's tensors, ${PLACEHOLDER.text}`;
  return { text, advice: [PLACEHOLDER] };
}

/** Names the packages whose code was not examined; undefined without any. */
function unexaminedCode(forbidden: readonly GlobalNames[]): string | undefined {
  const packages = new Set<string>();
  for (const { module, name } of forbidden) {
    if (isRebuilder(currentModule(module), name)) continue;
    packages.add((module.split('.')[0] ?? '').slice(0, SHOWN_PACKAGE_LENGTH));
  }
  if (packages.size === 0) return undefined;
  const shown = [...packages].slice(0, SHOWN_PACKAGES);
  if (packages.size > shown.length) shown.push(`${packages.size - shown.length} more`);
  return `loading runs the code of ${listOf(shown)}, which was not examined`;
}

function listOf(names: readonly string[]): string {
  const last = names.at(-1) ?? '';
  return names.length < 2 ? last : `${names.slice(0, -1).join(', ')} and ${last}`;
}
