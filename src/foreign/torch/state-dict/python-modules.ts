/**
 * Top-level modules of Python's standard library, from 2.7 to 3.14. Their functions open files, start processes and
 * import modules: only the types in `rebuilders.ts` are data.
 */
export const STANDARD_MODULES: ReadonlySet<string> = new Set(
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
