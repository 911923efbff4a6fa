"""Passages written for this project: everyday text in which writing systems meet for a reason."""

PASSAGES: dict[str, tuple[str, ...]] = {
    "ru": (
        "После обновления Linuxа сервер перезагрузился сам, а GNOMEовский менеджер окон завис. "
        "Мы откатили пакет через apt, проверили логи systemd и отправили отчёт на GitHub.",
        "Для борща возьмите 500г говядины, 2л воды и 3 крупные свёклы. Варите на медленном огне "
        "около 90мин, затем добавьте соль, лавровый лист и немного лимонного сока.",
        "Из аэропорта удобно ехать на Aeroexpressе: поезд идёт 35 минут, Wi-Fi есть в каждом вагоне. "
        "Билет можно купить в приложении для iOS и Androidа, оплата картой VISA или «Мир».",
        "Пусть n-ый элемент списка равен x; тогда (n+1)ый вычисляется по той же формуле. Для 5го "
        "шага погрешность Δx не превышает 0,1мм, а мощность — 2кВт.",
    ),
    "uk": (
        "Щоб зібрати програму з вихідного коду, установіть gcc та make. У Debianі ці пакунки мають "
        "назву build-essential, а документацію до APIшних викликів покладено у /usr/share/doc.",
        "На сніданок готуємо сирники: 400г сиру, одне яйце, ложка цукру й трохи борошна. Смажте їх "
        "на олії по 3хв з кожного боку і подавайте зі сметаною.",
        "Потяг до Львова відправляється о 7:40, місця бронюємо в застосунку Telegramом або на сайті. "
        "Від вокзалу до центру ходить трамвай №1, а USB-розетки є біля кожного крісла.",
    ),
    "bg": (
        "След ъпдейта GNOMEът тръгва по-бързо, но Firefoxът все още иска много памет. Ако ползвате "
        "Linuxа на стар лаптоп, опитайте XFCEто или по-лек прозоречен мениджър.",
        "За баница са нужни точени кори, 400г сирене, четири яйца и чаша кисело мляко. Печете на "
        "180°C, докато коричката стане златиста, и оставете да изстине 10мин.",
        "Автобусът до морето тръгва в осем, а GPSът показва задръстване край Бургас. Хотелът приема "
        "карти, WiFiто е безплатно и плажът е на пет минути пеша.",
    ),
    "sr": (
        "Покрените скрипту из Bashа и сачувајте излаз у датотеку. Ако PDFови нису читљиви, "
        "инсталирајте фонтове и поново покрените LaTeX из терминала.",
        "За гибаницу треба 500г кора, 300г сира, четири јаја и мало уља. Пеците на 200°C око 40 "
        "минута и служите уз чашу јогурта.",
        "Од Београда до Новог Сада воз вози 36 минута. Карте можете купити преко апликације за iPhone, "
        "а на станици постоји WiFi и паркинг за бицикле.",
    ),
    "el": (
        "Μετά την αναβάθμιση του Debian το GNOME ξεκινά κανονικά, αλλά το Wi-Fi θέλει τον οδηγό "
        "iwlwifi. Ανοίξτε ένα τερματικό και τρέξτε apt update πριν εγκαταστήσετε οτιδήποτε.",
        "Για τη σπανακόπιτα χρειάζεστε 1kg σπανάκι, 300g φέτα και φύλλο κρούστας. Ψήνετε στους 180°C "
        "για 45 λεπτά και αφήνετε την πίτα να κρυώσει λίγο.",
        "Το πλοίο για τη Νάξο φεύγει στις 7:30 από τον Πειραιά. Κλείστε εισιτήριο online, φορτίστε "
        "το κινητό μέσω USB και κατεβάστε τους χάρτες του GPS πριν φύγετε.",
    ),
    "ar": (
        "بعد تحديث نظام الLinux أعد تشغيل الخادم ثم افتح الTerminal واكتب الأمر apt upgrade. إذا ظهر خطأ "
        "في ملفات الPDF فثبّت الخطوط العربية من جديد.",
        "لتحضير الحمص نحتاج إلى 500غ من الحمص المسلوق وملعقتين من الطحينة وعصير ليمونة. اخلط المكونات "
        "جيدا ثم أضف زيت الزيتون والكمون وقدمه مع الخبز الساخن.",
        "تقلع الطائرة من الدار البيضاء في الساعة العاشرة، ويمكن حجز التذكرة عبر تطبيق على iPhone أو "
        "Android. في المطار شبكة WiFi مجانية ومقهى يفتح طوال الليل.",
    ),
    "fa": (
        "پس از نصب GNOMEی جدید، برنامه‌ها سریع‌تر باز می‌شوند. فایل‌های PDF‌ را می‌توان با Evince دید و "
        "Pythonی که همراه سیستم است برای اسکریپت‌های کوچک کافی است.",
        "برای قرمه‌سبزی ۳۰۰گرم گوشت، یک پیمانه لوبیا و سبزی سرخ‌شده لازم است. خورش را سه ساعت روی شعلهٔ "
        "کم بپزید و در پایان لیموی عمانی را اضافه کنید.",
        "از تهران تا اصفهان با قطار حدود شش ساعت راه است. بلیت‌ها را می‌توان با VPNهای معمولی هم خرید، "
        "ولی سایت راه‌آهن بدون آن‌ها هم باز می‌شود.",
    ),
    "he": (
        "התקנו את המערכת בLinux והפעלנו את הDocker מחדש. קובצי הPDF נפתחים כעת בFirefox, "
        "והשרת עונה על בקשות הAPI בתוך שנייה.",
        "לחומוס ביתי צריך 500 גרם גרגירים, טחינה גולמית, לימון ושום. מבשלים שעתיים, טוחנים היטב "
        "ומגישים עם שמן זית ופטרוזיליה קצוצה.",
        "הרכבת מתל אביב לחיפה יוצאת כל חצי שעה. אפשר לשלם בVisa או באפליקציית הMoovit, ובתחנה יש "
        "WiFi חינם ושקעי USB לטעינה; מדריך C++\u200f נמכר בדוכן.",
    ),
    "hi": (
        "Linux पर नया पैकेज स्थापित करने के लिए टर्मिनल खोलें और apt चलाएँ। GNOMEमें फ़ाइलें PDFके रूप में "
        "सहेजी जा सकती हैं और USBसे सीधे खोली जा सकती हैं।",
        "दाल बनाने के लिए 250ग्राम अरहर, हल्दी और नमक को कुकर में डालें। तीन सीटी के बाद घी में जीरा और "
        "हींग भूनकर ऊपर से डालें और गरम चावल के साथ परोसें।",
        "दिल्ली से आगरा की ट्रेन सुबह छह बजे चलती है। टिकट IRCTC की वेबसाइट पर मिलता है और स्टेशन पर "
        "WiFi मुफ़्त है; क्‍षेत्र का नक्शा फ़ोन में पहले से रखें।",
    ),
    "ta": (
        "புதிய Linuxஇல் நிரலை நிறுவ முனையத்தைத் திறந்து apt கட்டளையை இயக்கவும். PDFகளைத் திறக்க Evince "
        "போதும், Pythonஐ தனியாக நிறுவத் தேவையில்லை.",
        "சாம்பார் செய்ய 200கிராம் துவரம் பருப்பு, புளி, காய்கறிகள் மற்றும் மசாலா தூள் தேவை. பருப்பை வேகவைத்து "
        "காய்கறிகளுடன் சேர்த்து கொதிக்க விடவும்.",
        "சென்னையிலிருந்து மதுரைக்கு இரயில் ஏழு மணி நேரம் எடுக்கும். பயணச்சீட்டை Androidஇல் வாங்கலாம், நிலையத்தில் "
        "WiFi உண்டு.",
    ),
    "th": (
        "หลังจากอัปเดตLinuxแล้วให้รีบูตเครื่องและเปิดโปรแกรมFirefoxอีกครั้ง ถ้าไฟล์PDFเปิดไม่ได้"
        "ให้ติดตั้งฟอนต์ภาษาไทยใหม่ผ่านคำสั่งaptในเทอร์มินัล",
        "ต้มยำกุ้งใช้กุ้ง\u200b300กรัม\u200bตะไคร้\u200bใบมะกรูด\u200bและพริกสด ต้มน้ำให้เดือดแล้วใส่สมุนไพร "
        "ปรุงรสด้วยน้ำปลาและมะนาวก่อนปิดไฟ",
        "รถไฟจากกรุงเทพไปเชียงใหม่ใช้เวลาสิบชั่วโมง ซื้อตั๋วได้ในแอปบนiPhoneหรือAndroid "
        "ที่สถานีมีWiFiฟรีและช่องชาร์จUSBทุกที่นั่ง",
    ),
    "ja": (
        "Linuxのカーネルを更新したあと、Dockerを再起動してください。PDFファイルが開けない場合は、"
        "日本語フォントをaptでインストールし、GNOMEの設定画面から言語を選び直します。",
        "肉じゃがは牛肉200gとじゃがいも3個、玉ねぎ1個で作ります。だしを400ml入れて中火で20分ほど煮込み、"
        "最後にしょうゆとみりんで味を整えます。",
        "東京から京都までは新幹線で2時間15分です。切符はiPhoneアプリで買え、車内ではWiFiが使えます。"
        "Tシャツ一枚では夜は冷えるので、上着をお忘れなく。",
    ),
    "zh": (
        "升级Linux内核之后请重启Docker服务。如果PDF文件打不开，可以用apt安装中文字体，再在GNOME的设置里选择语言。",
        "做红烧肉需要五花肉500g、冰糖30g和两勺酱油。先用小火炒糖色，再加水炖40分钟，最后大火收汁即可出锅。",
        "从北京坐高铁到上海大约四个半小时，车票可以在App里购买，车厢里有WiFi和USB插座，记得带上身份证和充电宝。",
    ),
    "ko": (
        "Linux를 업데이트한 뒤에는 Docker를 다시 시작하세요. PDF가 열리지 않으면 apt로 한글 글꼴을 설치하고 "
        "GNOME의 설정에서 언어를 다시 고르면 됩니다.",
        "된장찌개는 두부 300g, 애호박 반 개, 된장 두 숟갈로 끓입니다. 육수 500ml를 붓고 15분쯤 끓인 뒤 파와 "
        "고추를 넣어 마무리합니다.",
        "서울에서 부산까지 KTX로 두 시간 반이 걸립니다. 표는 iPhone이나 Android의 앱에서 살 수 있고 객실마다 "
        "WiFi와 USB충전기가 있습니다.",
    ),
    "ka": (
        "Linuxის განახლების შემდეგ გადატვირთეთ სერვერი და გახსენით Firefoxი. PDFის წასაკითხად GNOMEში "
        "უკვე არის პროგრამა, შრიფტები კი aptით ყენდება.",
        "ხაჭაპურისთვის საჭიროა 500გ ყველი, ფქვილი, მაწონი და ერთი კვერცხი. გამოაცხვეთ 200°C ტემპერატურაზე "
        "და ცხელი მიირთვით.",
        "თბილისიდან ბათუმში მატარებელი ხუთ საათში ჩადის. ბილეთს AppStoreდან ჩამოტვირთული აპით იყიდით, "
        "ვაგონში WiFi და USBები არის.",
    ),
    "hy": (
        "Linuxի թարմացումից հետո վերագործարկեք սերվերը և բացեք Firefoxը։ PDFները կարդալու համար GNOMEում "
        "արդեն կա ծրագիր, իսկ Wordը պետք չէ։",
        "Տոլմայի համար վերցրեք 500գ աղացած միս, բրինձ, խաղողի տերև և կանաչի։ Եփեք մեղմ կրակի վրա մեկ ժամ "
        "և մատուցեք մածունով։",
        "Երևանից Գյումրի գնացքով երեք ժամ է։ Տոմսը կարելի է գնել iPhoneով կամ Androidով, իսկ կայարանում "
        "կա անվճար WiFi։",
    ),
    "tr": (
        "Linux güncellemesinden sonra Docker'ı yeniden başlatın. PDF'leri açmak için GNOME'un kendi "
        "programı yeterlidir; eksik yazı tiplerini apt'le kurabilirsiniz.",
        "Mercimek çorbası için 250g mercimek, bir soğan ve 1,5l su gerekir. Kısık ateşte 30dk pişirin, "
        "nane ve limonla servis edin.",
        "İstanbul'dan Ankara'ya hızlı tren dört buçuk saat sürer. Biletinizi iPhone'dan alabilir, "
        "yolda WiFi kullanabilir, koltuktaki USB'den şarj edebilirsiniz.",
    ),
    "vi": (
        "Sau khi cập nhật Linux, hãy khởi động lại Docker. Nếu tệp PDF không mở được thì cài thêm phông "
        "chữ bằng apt rồi chọn lại ngôn ngữ trong GNOME.",
        "Nấu phở cần 1kg xương bò, gừng nướng, quế và hồi. Ninh nước dùng khoảng 6 giờ ở lửa nhỏ, nêm "
        "nước mắm rồi chan lên bánh phở và thịt thái mỏng.",
        "Tàu từ Hà Nội đi Huế mất mười ba giờ. Bạn có thể mua vé trên ứng dụng iPhone, trên tàu có WiFi "
        "và ổ cắm USB ở mỗi giường.",
    ),
    "de": (
        "Nach dem Update des Linux-Kernels startet man den Docker\u00addienst neu. Für größere "
        "PDF-Dateien genügt Evince; fehlende Schriften holt man sich mit apt nach.",
        "Für Käsespätzle braucht man 400g Mehl, 4 Eier und 200ml Wasser. Den Teig durch die Presse "
        "drücken, bei 180°C überbacken und mit Röst\u00adzwiebeln servieren.",
        "Der Zug nach Zürich fährt um 7:32 von Gleis 5ab. Die Straße zum See ist gesperrt, der µ-Bus "
        "fährt aber alle 10min, und die Führung auf Dänisch beginnt in der St.-Ägidien-Kirche.",
    ),
    "fr": (
        "Après la mise à jour du noyau Linux, redémarrez le service Docker. Sous GNOME, les fichiers PDF "
        "s'ouvrent avec Evince ; c'est le 2ᵉ lecteur installé, le 1ᵉʳ étant Firefox.",
        "Pour la quiche, il faut 200g de lardons, 3 œufs et 25cl de crème. Enfournez à 180°C pendant "
        "35min, puis laissez tiédir avant de servir avec une salade.",
        "Le train de Lyon à Marseille met 1h40. À bord, le Wi-Fi est gratuit et chaque siège possède une "
        "prise USB ; la gare du XIXᵉ siècle se visite le samedi, entrée nº5.",
    ),
    "es": (
        "Después de actualizar el núcleo de Linux, reinicie el servicio. La 1ª vez tarda más, la 2ª y la "
        "3ª casi nada; los archivos PDF se abren con el lector de GNOME.",
        "Para el gazpacho use 1kg de tomates, pepino, ajo y aceite. Enfríe a 4ºC durante 2h y sirva con "
        "pan. La receta es de Mª Jesús y figura en la pág. 12, nº3.",
        "El tren a Sevilla sale a las 9:05 del andén nº 4. La Srª Gómez recoge las llaves en el 2ºB, "
        "hay WiFi en la 1ªplanta y el museo abre en el 3er piso.",
    ),
    "physics": (
        "The resistor is 4.7kΩ, the capacitor 10μF, and the pulse lasts 250μs. With Δx = 2μm and Δt = "
        "5ns the velocity is Δx/Δt; the area of the spot is πr² and its circumference 2πr.",
        "The Hamiltonian reads H = ħω(a†a + ½), where ωt is the phase and ψ(x,t) solves the equation. "
        "For λmax = 550nm the photon energy is hν, and σxy follows from εr and μr.",
        "We fit y = αx + βz + ε with σε = 0.3; the χ² per degree of freedom is 1.1, Δχ² is 3.84, and "
        "ΔTmax stays below 0.5K. The drag is ½ρv²A and the Γfunction enters through θc.",
    ),
    "chemistry": (
        "The βlactam ring opens in base, while αtocopherol stays intact. TNFα and IFNγ rise, NFκB is "
        "released, and PPARγ binds the ligand with a Kd of 5μM at 25°C.",
        "ΔHf is −286kJ/mol, ΔG follows from ΔH − TΔS, and the ω3 fatty acid melts at −44°C. The γglobulin "
        "fraction was washed with 50μL of buffer; δ13C was −25‰.",
        "The α1β1 integrin and the β2microglobulin were labelled; HNF4α was not. Use 20μg/mL of protein, "
        "a 0.45μm filter and 3μmol of the salt.",
    ),
    "code": (
        'def area(r): return math.pi * r**2  # πr²\nprint(f"{area(2.0):.3f} m²")\nλ = lambda x: x + 1\n'
        "Δt = t1 - t0\nassert Δt > 0, 'время идёт вперёд'",
        "for (int i = 0; i < n; i++) { sum += a[i] * w[i]; }  /* Σwᵢaᵢ */\n"
        "std::string s = u8\"Привет\"; // tests UTF-8\nlocale.set('ja_JP.UTF-8');",
        'msgid "Open file"\nmsgstr "Открыть файл"\nmsgid "Save as PDF"\nmsgstr "Сохранить как PDF"\n'
        'msgid "Quit"\nmsgstr "終了"\n#, fuzzy\nmsgid "Help"\nmsgstr "Βοήθεια"',
    ),
    "tables": (
        "| Code | Language | Own name |\n| ru | Russian | русский |\n| el | Greek | ελληνικά |\n"
        "| ja | Japanese | 日本語 |\n| ar | Arabic | العربية |\n| hi | Hindi | हिन्दी |",
        "Part;Value;Unit\nR1;4,7;kΩ\nC3;10;μF\nКТ315Б;транзистор;5шт\nМ8х1;гайка;12шт\nL2;22;μH\nU1;LM317T;—",
        "Letter\tName\tIPA\nθ\ttheta\t/ˈθiːtə/\nβ\tbeta\t/ˈbeɪtə/\nж\tzhe\t[ʐɛ]\nش\tshin\t[ʃiːn]\n한\than\t[han]",
    ),
    "emoji": (
        "Deploy finished 🚀 — thanks to the whole team 👩🏽‍💻👨‍👩‍👧‍👦! The rainbow flag 🏳️‍🌈 and the flag of "
        "Scotland 🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f are now in the picker, "
        "next to ❤️‍🔥 and 1️⃣.",
        "Rate the recipe: 👍 or 👎️? The cake ☕️🍰 took 45 min ⏱️, the kids 🧒🏿👧🏻 loved it, and even the "
        "cat 🐈‍⬛ came to look. © 2024, all rights reserved ®️.",
        "Packing list ✈️: passport 🛂, charger 🔌, sunscreen 🧴, book 📖. Weather: ☀️ 28°C, wind 🌬️ weak. "
        "See you at the 🏖️! Опоздавших не ждём 😉 お楽しみに 🎌",
    ),
    "names": (
        "The Hawaiʻi guide lists Kauaʻi, Lānaʻi and Niʻihau; the Qurʾān and the ʿUmar mosque are spelled "
        "with ʾ and ʿ. The Kraków–Łódź train stops at Częstochowa.",
        "Leo Tolstoy (Russian: Лев Никола́евич Толсто́й) wrote War and Peace (Война́ и мир). Akira Kurosawa "
        "(黒澤 明) filmed Ran (乱) in 1985; Confucius is 孔子 in Chinese.",
        "The Greek word φιλοσοφία (philosophia) joins φίλος and σοφία. Hebrew שלום and Arabic سلام (salām) "
        "share a root; in Georgian one says გამარჯობა.",
        "In English, thing is pronounced [θɪŋ] and bath /bɑːθ/; the Spanish beber has [β] between vowels: "
        "[beˈβeɾ]. The Welsh ll is a lateral [ɬ].",
    ),
}
